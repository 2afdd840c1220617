/** Readers by MIME type. */

import { typeByExtension } from '../mime-types.ts'
import { type ByteSource, bytesSource, type OpenedDocument, openTextOnly } from '../opened-document.ts'
import { openOtherArchive, openTar, openZip } from './archive.ts'
import { findPreview } from './camera-raw.ts'
import { openBzip2OrXz, openGzip, openLz4OrCompress, openZstd } from './compressed.ts'
import { decode, maxTextBytes, removeTerminalCodes } from './decode.ts'
import { decodeHtml, readHtml } from './html.ts'
import { openImage } from './image.ts'
import { decodeJsonEscapes } from './json.ts'
import { openContentLines } from './mail/content-lines.ts'
import { openMail, openMbox } from './mail/mail.ts'
import { openSignedData } from './mail/signed-data.ts'
import { openTnef } from './mail/tnef.ts'
import { openOleObject } from './office/embedded.ts'
import { openHwp } from './office/hwp.ts'
import { openIwork } from './office/iwork/iwork.ts'
import { openMsg } from './office/msg.ts'
import { findFamily, openOffice } from './office/office.ts'
import { openXml } from './office/office-xml.ts'
import { openDoc, openPpt, openXls } from './office/old-office.ts'
import { openRtf } from './office/rtf.ts'
import { openXps } from './office/xps.ts'
import type { PdfTools } from './pdf/pdf.ts'
import { openSvg } from './svg.ts'

/** `tools.openPart` opens a file in the file. Returns null for a file of the type that it does not read. */
export type Reader = (source: ByteSource, tools: PdfTools, mimeType: string) => OpenedDocument | null | Promise<OpenedDocument | null>

const readers = new Map<string, Reader>([
  // Imported on demand: PDF.js takes as long to load as everything else together.
  ['application/pdf', async (source, tools) => (await import('./pdf/pdf.ts')).openPdf(source, tools)],
  ['application/rtf', openRtf],
  [typeByExtension.doc!, openDoc],
  [typeByExtension.xls!, openXls],
  [typeByExtension.ppt!, openPpt],
  [typeByExtension.msg!, openMsg],
  [typeByExtension.hwp!, openHwp],
  ['application/x-cfb', openOleObject],
  ['message/rfc822', openMail],
  ['application/mbox', openMbox],
  ...withReader(['text/calendar', 'text/vcard'], openContentLines),
  ...withReader(['text/html', 'application/xhtml+xml'], (source) => openTextOnly(async () => readHtml(decodeHtml(source.read())))),
  ['application/xml', openXml],
  ['image/svg+xml', (source, { limits }) => openSvg(source, limits)],
  ...withReader(
    [
      ...['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/tiff', 'image/bmp', 'image/avif'],
      ...['image/heic', 'image/heic-sequence', 'image/heif', 'image/heif-sequence', 'image/jxl'],
      ...['image/jp2', 'image/jpx', 'image/jpm', 'image/j2c', 'image/vnd.adobe.photoshop', 'image/x-portable-anymap'],
    ],
    (source, { limits }, mimeType) => openImage(source, mimeType, limits),
  ),
  ...withReader(
    ['cr2', 'nef', 'dng', 'arw', 'pef', 'srw'].map((extension) => typeByExtension[extension]!),
    openCameraRaw,
  ),
  ...withReader([typeByExtension.pages!, typeByExtension.numbers!, typeByExtension.key!], openIwork),
  [typeByExtension.xps!, openXps],
  ['application/vnd.ms-tnef', openTnef],
  ['application/pkcs7-mime', openSignedData],
  ['application/zip', openZip],
  ['application/gzip', openGzip],
  ['application/zstd', openZstd],
  ...withReader(['application/x-bzip2', 'application/x-xz'], openBzip2OrXz),
  ...withReader(['application/x-lz4', 'application/x-compress'], openLz4OrCompress),
  ['application/x-tar', (source, tools) => openTar(source.read(), tools)],
  ...withReader(
    [
      ...['application/x-7z-compressed', 'application/x-rar-compressed', 'application/vnd.ms-cab-compressed'],
      ...['application/x-cpio', 'application/x-unix-archive', 'application/x-deb', 'application/x-iso9660-image'],
      'application/lzip',
    ],
    openOtherArchive,
  ),
  ...withReader(['application/json', 'application/x-ndjson'], (source) =>
    openTextOnly(async () => ({ text: removeTerminalCodes(decodeJsonEscapes(decode(source.head(maxTextBytes)))) })),
  ),
  ...withReader(['application/yaml', 'application/postscript'], openText),
])

function withReader(mimeTypes: readonly string[], reader: Reader): [string, Reader][] {
  return mimeTypes.map((mimeType) => [mimeType, reader])
}

/** Returns the reader of a type, null if there is none. */
export function findReader(mimeType: string): Reader | null {
  const family = findFamily(mimeType)
  if (family) return (source, tools) => openOffice(source, family, tools)
  return readers.get(mimeType) ?? (mimeType.startsWith('text/') ? openText : null)
}

function openText(source: ByteSource): OpenedDocument {
  return openTextOnly(async () => ({ text: removeTerminalCodes(decode(source.head(maxTextBytes))) }))
}

/** Opens the preview in a raw file of a camera. */
async function openCameraRaw({ read, filename }: ByteSource, { limits }: PdfTools): Promise<OpenedDocument | null> {
  const preview = findPreview(read())
  return preview && openImage(bytesSource(preview, filename), 'image/jpeg', limits)
}
