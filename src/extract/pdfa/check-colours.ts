/** Checks colour spaces and images of PDFs against ISO 19005-2, 6.2.4 and 6.2.8. The output intent is sRGB. */
import { decodePDFRawStream, PDFArray, PDFDict, PDFName, type PDFObject, PDFRawStream } from '@cantoo/pdf-lib'
import { nameOf } from './check-font.ts'

const cmyk = 'uses CMYK colours without a profile'
const maxDepth = 10
const imageFilters = new Set([
  'FlateDecode',
  'DCTDecode',
  'CCITTFaxDecode',
  'JBIG2Decode',
  'RunLengthDecode',
  'ASCIIHexDecode',
  'ASCII85Decode',
])
const intents = new Set(['RelativeColorimetric', 'AbsoluteColorimetric', 'Perceptual', 'Saturation'])

/** Returns why a colour space does not conform; null if it does. */
export function checkColourSpace(space: PDFObject | undefined, resources: PDFDict | undefined, depth = 0): string | null {
  if (depth > maxDepth) return 'has nested colour spaces'
  if (space === undefined) return null
  if (space instanceof PDFName) {
    const name = space.decodeText()
    if (['DeviceGray', 'DeviceRGB', 'Pattern'].includes(name)) return null
    const spaces = resources?.lookupMaybe(PDFName.of('ColorSpace'), PDFDict)
    if (name === 'DeviceCMYK') return spaces?.has(PDFName.of('DefaultCMYK')) ? null : cmyk
    return spaces?.has(space) ? checkColourSpace(spaces.lookup(space), undefined, depth + 1) : 'uses an unknown colour space'
  }
  if (!(space instanceof PDFArray)) return 'uses an unknown colour space'
  const family = space.lookup(0, PDFName).decodeText()
  const inner = (index: number) => checkColourSpace(space.lookup(index), resources, depth + 1)
  switch (family) {
    case 'DeviceGray':
    case 'DeviceRGB':
    case 'CalGray':
    case 'CalRGB':
    case 'Lab':
      return null
    case 'ICCBased':
      return checkProfile(space.lookup(1))
    case 'Indexed':
      return inner(1)
    case 'Pattern':
      return space.size() > 1 ? inner(1) : null
    case 'Separation':
      return inner(2)
    case 'DeviceCMYK':
      return cmyk
    default:
      return `uses the colour space ${family}, which cannot be checked`
  }
}

function checkProfile(stream: PDFObject | undefined): string | null {
  const invalid = 'has a colour profile that PDF/A does not allow'
  if (!(stream instanceof PDFRawStream)) return invalid
  stream.dict.delete(PDFName.of('Alternate'))
  const profile = Buffer.from(decodePDFRawStream(stream).decode())
  const text = (from: number) => profile.toString('latin1', from, from + 4)
  const space = { GRAY: 1, 'RGB ': 3, CMYK: 4, 'Lab ': 3 }[text(16)]
  const components = Number(String(stream.dict.lookup(PDFName.of('N'))))
  const isValid = profile.length >= 132 && text(36) === 'acsp' && profile[8]! <= 4 && ['scnr', 'mntr', 'prtr', 'spac'].includes(text(12))
  return isValid && space === components ? null : invalid
}

/** Checks an image and its masks. Removes entries that PDF/A forbids and that do not affect the picture. */
export function checkImage(image: PDFRawStream, resources: PDFDict | undefined, depth = 0): string | null {
  if (depth > 2) return 'has nested masks'
  const { dict } = image
  for (const key of ['Interpolate', 'Alternates', 'OPI', 'Metadata']) dict.delete(PDFName.of(key))
  const intent = nameOf(dict, 'Intent')
  if (intent !== undefined && !intents.has(intent)) dict.delete(PDFName.of('Intent'))
  for (const filter of filtersOf(dict)) {
    if (filter === 'JPXDecode') return 'has a JPEG 2000 image, which cannot be checked'
    if (filter !== 'LZWDecode' && !imageFilters.has(filter)) return `has an image with the filter ${filter}`
  }
  for (const key of ['SMask', 'Mask']) {
    const mask = dict.lookup(PDFName.of(key))
    const problem = mask instanceof PDFRawStream ? checkImage(mask, resources, depth + 1) : null
    if (problem) return problem
  }
  return checkColourSpace(dict.lookup(PDFName.of('ColorSpace')), resources)
}

/** Returns the names of the filters of a stream. */
export function filtersOf(dict: PDFDict): string[] {
  const filter = dict.lookup(PDFName.of('Filter'))
  if (filter instanceof PDFName) return [filter.decodeText()]
  return filter instanceof PDFArray ? filter.asArray().map((_, i) => filter.lookup(i, PDFName).decodeText()) : []
}
