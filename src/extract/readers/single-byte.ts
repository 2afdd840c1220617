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
/** Signs that stand beside numbers and spaces, never inside words. */
const signs = new Set('€£¥¢§©®™°±²³µ¼½¾')
/** Latin letters beyond ASCII that are words. */
const wordLetters = new Set('àáâäåæèéêëìíîòóôöøùúü')
/** Minimum lead of another encoding over the most common one, for each byte: the letters of two languages alone say little. */
const minLead = 0.1
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
  const [common, ...others] = encodings.map((encoding) => ({ encoding, score: scoreEncoding(bytes, positions, tableOf(encoding)) }))
  const best = others.reduce((first, other) => (other.score > first.score ? other : first))
  return best.score > common!.score + minLead * positions.length ? best.encoding : common!.encoding
}

const isLetter = (character: string): boolean => /\p{L}/u.test(character)
const isAscii = (character: string): boolean => character < '\x80'
const isUpper = (character: string): boolean => character !== character.toLowerCase()

/** Returns whether a letter has another case than those around it: `aÒ`, `AÒo`, `įC`. */
function isOddCase(before: string, character: string, after: string): boolean {
  const isFollowedBySmall = isLetter(after) && !isUpper(after) && after !== 'ß'
  if (!isUpper(character)) return character !== 'ß' && isLetter(after) && isUpper(after)
  return isLetter(before) && (!isUpper(before) || isFollowedBySmall)
}

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
      const isLatin = /\p{Script=Latin}/u.test(character)
      const isMixed = [before, after].some((other) => isLetter(other) && isAscii(other) && !isLatin)
      const isBesideDigit = [before, after].some((other) => /\d/.test(other))
      const isOddWord = isLatin && !isLetter(before) && !isLetter(after) && !wordLetters.has(character.toLowerCase())
      if (isOddCase(before, character, after) || isMixed || isBesideDigit || isOddWord) others--
      else letters.set(character.toLowerCase(), (letters.get(character.toLowerCase()) ?? 0) + 1)
    } else if (signs.has(character) && [before, after].some((other) => /[\d\s]/.test(other))) others++
    else if (punctuation.has(character)) others += isLetter(before) && isLetter(after) ? (character === '’' ? 0.8 : -1) : 0.5
    else others -= /[\p{Cc}\p{Cn}\p{Co}]|\ufffd/u.test(character) ? 3 : 1
  }
  const scores = alphabets.map((alphabet) => {
    let score = 0
    for (const [letter, count] of letters) score += count * (alphabet.get(letter) ?? -1)
    return score
  })
  return others + Math.max(...scores)
}
