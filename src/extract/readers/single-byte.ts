/** Detection of encodings with one byte per character, by the letters of languages. chardet confuses them for most short texts. */
import iconv from 'iconv-lite'

/** Encodings, the more common ones first. */
const encodings = [
  ...[
    'windows-1252',
    'windows-1250',
    'iso-8859-2',
    'windows-1251',
    'koi8-r',
    'windows-1253',
    'windows-1254',
    'windows-1257',
    'iso-8859-15',
  ],
  ...[
    'cp850',
    'cp852',
    'cp437',
    'ibm866',
    'iso-8859-5',
    'macintosh',
    'maccenteuro',
    'maccyrillic',
    'windows-1255',
    'windows-1256',
    'koi8-u',
  ],
]

/** Letters of languages, the more frequent ones first: all letters of other scripts, letters beyond ASCII of the Latin script. */
const alphabets = [
  ...[
    'üäöß',
    'éèàêçôîùâûïëœüæ',
    'óíáéñúü',
    'àèùòìé',
    'ãçáéóêíõúâàôü',
    'ëéïèöü',
    'äåöé',
    'åøæé',
    'ðíáþóéúæýö',
    'ąłęóżśćńź',
    'íáéěřčýžůšúňťďó',
  ],
  ...['áíéčžýľšťúôďňäŕóĺ', 'áéőóöíűüú', 'čšćžđ', 'ășțîâşţ', 'ışğüçöâ', 'ėšąžųįęūč', 'āēīšūņļģžčķ', 'äõüöšž', 'óàèéçíòúïü'],
  ...['оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё', 'оанитвіреслкдумпязьбгчйхцжюїшєщфґ', 'аоиенрсјтукдвпмлзбгљчњшжћцђхфџ'],
  ...['αοιετσνηυρπκμλωςίάόέγδήχθύφβώξζψϊϋΐΰ', 'יוהלארתבמשנעדחפקכםסטגזןצךףץ', 'ايلمنترهبدعسفقحكجشصطةخضغزثظءىآأؤإئپچژگ'],
].map((letters) => new Map(Array.from(letters, (letter, rank) => [letter, 1 - rank / letters.length / 2])))

const punctuation = new Set('“”„‚‘’«»‹›–—…€§°•·©®™£½¼¿¡ª\u00a0')
/** Maximum bytes from 0x80 that are looked at. */
const maxSamples = 1000

const tables = new Map<string, string>()

/** Returns the characters of the bytes from 0x80 to 0xff. */
function tableOf(encoding: string): string {
  let table = tables.get(encoding)
  if (table === undefined) {
    table = Array.from({ length: 128 }, (_, i) => iconv.decode(Buffer.from([i + 0x80]), encoding)).join('')
    tables.set(encoding, table)
  }
  return table
}

/** Returns the encoding whose letters fit best; the first one if several fit equally. */
export function guessSingleByte(bytes: Uint8Array): string {
  const positions: number[] = []
  for (let i = 0; i < bytes.length && positions.length < maxSamples; i++) if ((bytes[i] ?? 0) >= 0x80) positions.push(i)
  let best = { encoding: 'windows-1252', score: Number.NEGATIVE_INFINITY }
  for (const encoding of encodings) {
    const score = scoreEncoding(bytes, positions, tableOf(encoding))
    if (score > best.score) best = { encoding, score }
  }
  return best.encoding
}

const isLetter = (character: string): boolean => /\p{L}/u.test(character)
const isAscii = (character: string): boolean => character < '\x80'
const isUpper = (character: string): boolean => character !== character.toLowerCase()

/** Scores the characters beyond ASCII by the alphabet of the language that fits best. */
function scoreEncoding(bytes: Uint8Array, positions: readonly number[], table: string): number {
  const at = (i: number): string => {
    const byte = bytes[i] ?? 0x20
    return byte < 0x80 ? String.fromCharCode(byte) : (table[byte - 0x80] ?? '\ufffd')
  }
  let others = 0
  const letters = new Map<string, number>()
  for (const i of positions) {
    const [before, character, after] = [at(i - 1), at(i), at(i + 1)]
    if (isLetter(character)) {
      const isOddCase = isUpper(character) && isLetter(before) && !isUpper(before)
      const isMixed = [before, after].some((other) => isLetter(other) && isAscii(other) && !/\p{Script=Latin}/u.test(character))
      if (isOddCase || isMixed) others--
      else letters.set(character.toLowerCase(), (letters.get(character.toLowerCase()) ?? 0) + 1)
    } else if (punctuation.has(character)) others += isLetter(before) && isLetter(after) ? (character === '’' ? 0.8 : -1) : 0.5
    else others -= /[\p{Cc}\p{Cn}\p{Co}]|\ufffd/u.test(character) ? 3 : 1
  }
  const scores = alphabets.map((alphabet) => {
    let score = 0
    for (const [letter, count] of letters) score += count * (alphabet.get(letter) ?? -1)
    return score
  })
  return others + Math.max(...scores)
}
