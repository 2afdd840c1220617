/** Tesseract codes that ISO 639 does not know, or knows as something else. */
const tesseractOnly: Record<string, string> = {
  deu_latf: 'German (Fraktur)',
  enm: 'Middle English',
  equ: 'Mathematics',
  frk: 'German (Fraktur)',
  frm: 'Middle French',
  osd: 'Orientation and script',
}

/** How Tesseract writes scripts and ages after the language. */
const subtags: Record<string, string> = { sim: 'Hans', tra: 'Hant', latn: 'Latn', cyrl: 'Cyrl' }
const remarks: Record<string, string> = { old: 'old', vert: 'vertical', frak: 'Fraktur' }

/** The English name of a Tesseract language code: `deu` is German, `chi_sim` Simplified Chinese; the code itself where nobody knows it. */
export function languageName(code: string): string {
  const known = tesseractOnly[code]
  if (known) return known
  const [language = '', ...rest] = code.split('_')
  const tag = [language === 'chi' ? 'zho' : language, ...rest.flatMap((part) => subtags[part] ?? [])].join('-')
  const remark = rest.flatMap((part) => remarks[part] ?? [])
  return [nameOf(tag) ?? code, ...remark.map((text) => `(${text})`)].join(' ')
}

function nameOf(tag: string): string | undefined {
  try {
    return new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' }).of(tag)
  } catch {
    return undefined
  }
}
