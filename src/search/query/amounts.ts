/** Amounts with two decimals or one, and a space, a point, a comma or an apostrophe between thousands. */
import type { Token } from './tokenizer.ts'

/** An amount with spaces between thousands. Integers are no amounts: `2026 100` can be two numbers. */
const spaced = /(?<![\p{L}\p{N}.,'’])\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3}){1,4}(?=[.,]\d{1,2}(?![\p{L}\p{N}.,]))/gu

/** Joins the thousands of amounts by hyphens: a term of their groups, and of the number without spaces. */
export const joinAmounts = (text: string): string => text.replace(spaced, (thousands) => thousands.replace(/\s/g, '-'))

/** A number that is searched in groups too. Numbers of four digits are mostly years, whose searches would have to check positions. */
const wholeNumber = /^[1-9]\d{4,14}$/

/** Returns the groups of three digits of a number or amount that is written without them (`1234,56`: 1, 234, 56); null for other words. */
export function digitGroups(text: string, [whole, decimals, ...others]: readonly Token[]): string[] | null {
  if (!whole || others.length > 0) return null
  if (!decimals) return wholeNumber.test(whole.text) ? groupsOfThree(whole.text) : null
  if (!/^\d{4,15}$/.test(whole.text) || !/^\d{1,2}$/.test(decimals.text) || !/^[.,]$/.test(text.slice(whole.end, decimals.start)))
    return null
  return [...groupsOfThree(whole.text), decimals.text]
}

const groupsOfThree = (digits: string): string[] => digits.replace(/\B(?=(?:\d{3})+$)/g, ' ').split(' ')
