/** Decimal digits of other scripts: Arabic, Persian, Indian, Thai, Lao, Tibetan, Burmese, Khmer and Mongolian. */

/** The zero of each script. The other nine digits follow it. */
const zeros = [...'٠۰߀०০੦૦୦௦౦೦൦๐໐༠၀០᠐']

const values = new Map(
  zeros.flatMap((zero) =>
    Array.from({ length: 10 }, (_, value) => [String.fromCodePoint(zero.codePointAt(0)! + value), String(value)] as const),
  ),
)
const digits = new RegExp(`[${[...values.keys()].join('')}]`, 'g')

/** Replaces digits of other scripts with those of ASCII. */
export const foldDigits = (text: string): string => text.replace(digits, (digit) => values.get(digit)!)
