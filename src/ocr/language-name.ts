/** What Tesseract calls otherwise than ISO 639, and how it writes scripts and remarks after the language. */
const ownNames: Record<string, string> = {
  deu_latf: 'German (Fraktur)',
  frk: 'German (Fraktur)',
  enm: 'Middle English',
  frm: 'Middle French',
}
const scripts: Record<string, string> = { sim: 'Hans', tra: 'Hant', latn: 'Latn', cyrl: 'Cyrl' }
const remarks: Record<string, string> = { old: ' (old)', vert: ' (vertical)', frak: ' (Fraktur)' }

/** The English name of a language by its Tesseract code: `deu` is German, `chi_sim` Simplified Chinese; the code itself where nobody knows it. */
export function languageName(code: string): string {
  if (ownNames[code]) return ownNames[code]
  const [language = '', ...rest] = code.split('_')
  const tag = [language === 'chi' ? 'zho' : language, ...rest.flatMap((part) => scripts[part] ?? [])].join('-')
  return nameOf(tag, code) + rest.map((part) => remarks[part] ?? '').join('')
}

function nameOf(tag: string, code: string): string {
  try {
    return new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' }).of(tag) ?? code
  } catch {
    return code
  }
}
