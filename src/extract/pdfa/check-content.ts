/** Checks the contents of pages, forms, patterns and appearances against ISO 19005-2. */
import { decodePDFRawStream, PDFDict, PDFName, PDFRawStream } from '@cantoo/pdf-lib'
import { checkColourSpace, checkImage } from './check-colours.ts'
import { checkFont, codeSize, nameOf } from './check-font.ts'
import { type Operand, type Operation, scanContent } from './content-scanner.ts'

/** PDF 32000-1, annex A. BI stands for a whole inline image. */
const operators = new Set(
  `b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EMC ET EX f F f* G g gs h i J j K k l m M MP n q Q re RG rg ri s S SC sc SCN scn sh T* Tc
  Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' "`.split(/\s+/),
)
const invisible = 3
const maxStates = 28
const maxDepth = 20
const blendModes = new Set(
  `Normal Compatible Multiply Screen Overlay Darken Lighten ColorDodge ColorBurn HardLight SoftLight Difference Exclusion Hue Saturation Color
  Luminosity`.split(/\s+/),
)

export interface CheckedContent {
  /** reasons why the content does not conform, except problems of fonts */
  readonly problems: Set<string>
  /** codes that are shown, by font */
  readonly fonts: Map<PDFDict, Set<number>>
  hasText: boolean
  hasVisibleText: boolean
  hasImage: boolean
  /** Whether annotations contain files, sounds or films, which a picture of the page would lack. */
  hasMedia: boolean
}

export const emptyContent = (): CheckedContent => ({
  problems: new Set(),
  fonts: new Map(),
  hasText: false,
  hasVisibleText: false,
  hasImage: false,
  hasMedia: false,
})

/** Returns the first reason against the content, including its fonts; null if it conforms. */
export function firstProblem({ problems, fonts }: CheckedContent): string | null {
  for (const problem of problems) return problem
  for (const [font, codes] of fonts) {
    const problem = checkFont(font, codes)
    if (problem) return problem
  }
  return null
}

interface TextState {
  font: PDFDict | null
  mode: number
}

/** Adds the fonts, images and problems of a content stream to `found`. `visited`: streams that were checked before. */
export function checkContent(
  bytes: Uint8Array,
  resources: PDFDict | undefined,
  found: CheckedContent,
  visited: Set<unknown>,
  depth = 0,
): void {
  if (depth > maxDepth) return void found.problems.add('has nested forms')
  let state: TextState = { font: null, mode: 0 }
  const states: TextState[] = []
  const entry = (kind: string, name: Operand | undefined) => {
    const list = resources?.lookupMaybe(PDFName.of(kind), PDFDict)
    return typeof name === 'string' ? list?.lookup(PDFName.of(name.slice(1))) : undefined
  }
  const add = (problem: string | null): void => void (problem && found.problems.add(problem))

  function show(strings: readonly Operand[]): void {
    if (!state.font) return
    const codes = found.fonts.get(state.font) ?? new Set()
    found.fonts.set(state.font, codes)
    const size = codeSize(state.font)
    for (const text of strings.flat(1)) {
      if (!(text instanceof Uint8Array)) continue
      for (let at = 0; at + size <= text.length; at += size) codes.add(size === 2 ? (text[at]! << 8) | text[at + 1]! : text[at]!)
      if (text.length > 0) found.hasText = true
      if (text.length > 0 && state.mode !== invisible) found.hasVisibleText = true
    }
  }

  function draw(stream: unknown): void {
    if (!(stream instanceof PDFRawStream)) return
    if (nameOf(stream.dict, 'Subtype') === 'Image') {
      found.hasImage = true
      add(checkImage(stream, resources))
      return
    }
    if (stream.dict.has(PDFName.of('Ref')) || nameOf(stream.dict, 'Subtype2') === 'PS') add('has external or PostScript forms')
    stream.dict.delete(PDFName.of('OPI'))
    checkStream(stream)
  }

  function checkStream(stream: PDFRawStream): void {
    if (visited.has(stream)) return
    visited.add(stream)
    if (!stream.dict.has(PDFName.of('Resources')) && resources) stream.dict.set(PDFName.of('Resources'), resources)
    const group = stream.dict.lookupMaybe(PDFName.of('Group'), PDFDict)
    add(checkColourSpace(group?.lookup(PDFName.of('CS')), resources))
    const own = stream.dict.lookupMaybe(PDFName.of('Resources'), PDFDict)
    checkContent(decodePDFRawStream(stream).decode(), own, found, visited, depth + 1)
  }

  function checkPattern(pattern: unknown): void {
    if (pattern instanceof PDFRawStream) checkStream(pattern)
    else if (pattern instanceof PDFDict) checkShading(pattern.lookup(PDFName.of('Shading')))
  }

  function checkShading(shading: unknown): void {
    const dict = shading instanceof PDFRawStream ? shading.dict : shading instanceof PDFDict ? shading : undefined
    if (dict) add(checkColourSpace(dict.lookup(PDFName.of('ColorSpace')), resources))
  }

  function checkGraphicsState(dict: unknown): void {
    if (!(dict instanceof PDFDict)) return
    for (const key of ['TR', 'TR2', 'HT', 'HTP']) dict.delete(PDFName.of(key))
    const mode = dict.lookup(PDFName.of('BM'))
    if (mode !== undefined && !(mode instanceof PDFName && blendModes.has(mode.decodeText()))) dict.delete(PDFName.of('BM'))
    if (dict.has(PDFName.of('Font'))) add('sets fonts by graphics states')
    const mask = dict.lookup(PDFName.of('SMask'))
    if (mask instanceof PDFDict) draw(mask.lookup(PDFName.of('G')))
  }

  function apply({ operator, operands }: Operation): void {
    const last = operands.at(-1)
    if (!operators.has(operator)) add('has unknown operators')
    switch (operator) {
      case 'q':
        if (states.push({ ...state }) > maxStates) add('has too many nested graphics states')
        break
      case 'Q':
        if (states.length === 0) add('restores graphics states that it did not save')
        state = states.pop() ?? state
        break
      case 'Tr':
        if (typeof last === 'number') state.mode = last
        break
      case 'Tf': {
        const font = entry('Font', operands[0])
        state.font = font instanceof PDFDict ? font : null
        if (!state.font) add('uses a font that it does not have')
        break
      }
      case 'Tj':
      case 'TJ':
      case "'":
      case '"':
        show([last ?? []])
        break
      case 'k':
      case 'K':
        add(checkColourSpace(PDFName.of('DeviceCMYK'), resources))
        break
      case 'cs':
      case 'CS':
        if (typeof last === 'string') add(checkColourSpace(PDFName.of(last.slice(1)), resources))
        break
      case 'scn':
      case 'SCN':
        if (typeof last === 'string') checkPattern(entry('Pattern', last))
        break
      case 'sh':
        checkShading(entry('Shading', last))
        break
      case 'Do':
        draw(entry('XObject', last))
        break
      case 'gs':
        checkGraphicsState(entry('ExtGState', last))
        break
      case 'BI':
        found.hasImage = true
        checkInlineImage(operands.flat(2).map(String))
        break
    }
  }

  function checkInlineImage(words: readonly string[]): void {
    if (words.some((word) => ['/CMYK', '/DeviceCMYK', '/LZW', '/LZWDecode', 'true'].includes(word) && !words.includes('/IM')))
      add('has inline images that PDF/A does not allow')
  }

  try {
    for (const operation of scanContent(bytes)) apply(operation)
    if (states.length > 0) add('does not restore its graphics state')
  } catch (problem) {
    add(`is damaged: ${problem instanceof Error ? problem.message : problem}`)
  }
}
