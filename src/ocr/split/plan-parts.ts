/** Plans the parts of a file that is split. */
import type { PageMark } from '../../ports/document-reader.ts'

export interface PlannedPart {
  /** counted from 1 */
  readonly pages: readonly number[]
  /** archive serial number on the pages */
  readonly serialNumber: number | null
}

/**
 * Returns the parts of a file by the marks of its pages, in order. Blank pages (mode `blank`) and separator sheets with their blank back (mode
 * `barcode`) belong to no part. A new archive serial number begins a part with its page.
 */
export function planParts(marks: readonly PageMark[], mode: 'blank' | 'barcode'): PlannedPart[] {
  const parts: { pages: number[]; serialNumber: number | null }[] = []
  let isOpen = false
  let isAfterSeparator = false
  for (const { page, isBlank, isSeparator, serialNumber } of marks) {
    if (mode === 'blank' ? isBlank : isSeparator || (isBlank && isAfterSeparator)) {
      isOpen = false
      isAfterSeparator = isSeparator
      continue
    }
    isAfterSeparator = false
    const current = isOpen ? parts.at(-1) : undefined
    if (current && (serialNumber === null || serialNumber === current.serialNumber)) current.pages.push(page)
    else parts.push({ pages: [page], serialNumber })
    isOpen = true
  }
  return parts
}
