/** Windows code pages. */
import { decodeAs } from './decode.ts'
import { guessSingleByte } from './single-byte.ts'

const names: Readonly<Record<number, string>> = {
  437: 'cp437',
  850: 'cp850',
  852: 'cp852',
  866: 'ibm866',
  932: 'shift_jis',
  936: 'gbk',
  949: 'euc-kr',
  950: 'big5',
  1200: 'utf-16le',
  1361: 'euc-kr',
  10000: 'macintosh',
  20127: 'windows-1252',
  20866: 'koi8-r',
  20932: 'euc-jp',
  21866: 'koi8-u',
  28591: 'windows-1252',
  28592: 'iso-8859-2',
  28595: 'iso-8859-5',
  28597: 'iso-8859-7',
  28605: 'iso-8859-15',
  32768: 'macintosh',
  50220: 'iso-2022-jp',
  51932: 'euc-jp',
  51949: 'euc-kr',
  52936: 'gbk',
  54936: 'gb18030',
  65001: 'utf-8',
}

const charsets: Readonly<Record<number, string>> = {
  77: 'macintosh',
  128: 'shift_jis',
  129: 'euc-kr',
  134: 'gbk',
  136: 'big5',
  161: 'windows-1253',
  162: 'windows-1254',
  163: 'windows-1258',
  177: 'windows-1255',
  178: 'windows-1256',
  186: 'windows-1257',
  204: 'windows-1251',
  222: 'windows-874',
  238: 'windows-1250',
}

/** Returns the encoding of a code page: `windows-1252` for 1252. */
export const codePageEncoding = (codePage: number): string =>
  names[codePage] ?? (codePage === 874 || (codePage >= 1250 && codePage <= 1258) ? `windows-${codePage}` : 'windows-1252')

/** Returns the encoding of the character set of a font; undefined for ANSI and unknown ones. */
export const charsetEncoding = (charset: number): string | undefined => charsets[charset]

/** Decodes by the number of a code page. */
export const decodeCodePage = (bytes: Uint8Array, codePage: number): string => decodeAs(bytes, codePageEncoding(codePage)) ?? ''

/** Returns the code page of Windows that fits the letters best. */
export const guessCodePage = (bytes: Uint8Array): number => Number(/^windows-(125\d)$/.exec(guessSingleByte(bytes))?.[1] ?? 1252)
