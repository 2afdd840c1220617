/** The digit 0 in Arabic, Hindi and Bengali. Years in these digits are mostly Gregorian; those in Persian and Thai digits are not. */
const zeros = ['٠', '०', '০'].map((zero) => zero.charCodeAt(0))
const foldDigit = (digit: string): string =>
  String(zeros.map((zero) => digit.charCodeAt(0) - zero).find((value) => value >= 0 && value <= 9))

/** Returns a text in lower case, without accents and compatibility forms: `24 Aralık` is `24 aralik`, `２４日` is `24日`, `٢٤` is `24`. */
export const foldText = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/ı/g, 'i')
    .replace(/[٠-٩०-९০-৯]/g, foldDigit)
    .replace(/[\u2010-\u2012]/g, '-')
    .replace(/[\u2018\u2019]/g, "'")
