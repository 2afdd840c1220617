/** International bank account numbers (ISO 13616), written in groups of four. */

interface Word {
  readonly text: string
}

/** Length of all groups but the last. */
export const ibanGroup = 4
/** Country and check digits. */
const firstGroup = /^[a-z]{2}\d{2}$/
const whole = /^[a-z]{2}\d{2}[a-z\d]{11,30}$/

/** Returns whether a word can be the next group of a number that begins with these words. */
export function isIbanGroup(next: string, words: readonly Word[]): boolean {
  if (words.at(-1)!.text.length !== ibanGroup || !firstGroup.test(words[0]!.text)) return false
  return /^[a-z\d]{1,4}$/.test(next) && (words.length === 1 || /\d/.test(next))
}

/** Returns the numbers of first words that are an IBAN together. */
export function ibanLengths(words: readonly Word[]): number[] {
  if (!firstGroup.test(words[0]!.text)) return []
  const lengths: number[] = []
  let text = ''
  for (const [index, word] of words.entries()) {
    text += word.text
    if (whole.test(text) && checkValue(text) === 1) lengths.push(index + 1)
  }
  return lengths
}

/** Returns the number modulo 97 with its letters as 10 to 35 and the first group at the end: 1 if the check digits are right. */
function checkValue(text: string): number {
  let rest = 0
  for (const character of text.slice(ibanGroup) + text.slice(0, ibanGroup)) {
    const value = Number.parseInt(character, 36)
    rest = (rest * (value < 10 ? 10 : 100) + value) % 97
  }
  return rest
}
