/** Returns a text in lower case, without accents and compatibility forms: `24 Aralık` is `24 aralik`, `２４日` is `24日`. */
export const foldText = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/ı/g, 'i')
    .replace(/[\u2010-\u2012]/g, '-')
    .replace(/[\u2018\u2019]/g, "'")
