/** Reader of calendars (iCalendar, RFC 5545) and contacts (vCard, RFC 6350), whose properties are folded lines. */

import { latin1 } from '../../bytes.ts'
import { type ByteSource, type OpenedDocument, openTextOnly } from '../../opened-document.ts'
import { decode, maxTextBytes } from '../decode.ts'

/** Versions before RFC 2425, in which the white space of a fold is part of the value. */
const oldVersion = /^VERSION:(1\.0|2\.1)/im
const quotedPrintable = /^([^:\r\n]{0,200};(?:ENCODING=)?QUOTED-PRINTABLE[^:\r\n]{0,200}:)((?:.*=\r?\n){0,10000}.*)/gim
const binaryProperty =
  /^[^:\r\n]{0,200}(?:;(?:ENCODING=(?:B|BASE64)|BASE64)(?:;[^:\r\n]{0,200})?:|:data:[^,\r\n]{0,200};base64,).*(?:\r?\n){0,2}/gim

/** Opens a calendar or contacts: one property a line, without binary values such as photos. */
export const openContentLines = (source: ByteSource): OpenedDocument =>
  openTextOnly(async () => ({ text: readContentLines(source.head(maxTextBytes)) }))

function readContentLines(bytes: Uint8Array): string {
  // Characters are bytes here, because folds may divide UTF-8.
  const lines = latin1(bytes)
  const unfolded = lines
    .replace(quotedPrintable, (_, name: string, value: string) => name + decodeQuotedPrintable(value))
    .replace(/\r?\n([ \t])/g, oldVersion.test(lines) ? '$1' : '')
    .replace(binaryProperty, '')
  const charset = /;CHARSET="?([\w-]{1,40})/i.exec(unfolded)?.[1]
  const text = decode(Buffer.from(unfolded, 'latin1'), charset)
  return text.replace(/\\([n,;:\\])/gi, (_, letter: string) => (letter.toLowerCase() === 'n' ? '\n' : letter)).replaceAll('\r\n', '\n')
}

const decodeQuotedPrintable = (value: string): string =>
  value.replace(/=\r?\n/g, '').replace(/=([0-9a-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
