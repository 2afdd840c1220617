/** Codes of languages: ISO 639-1 of detectors, and codes of Tesseract models. */

/** Tesseract's codes of the languages that the detector knows, the usual model first. Serbian is that in Cyrillic letters. */
const tesseractCodes: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  (
    'am:amh ar:ara az:aze be:bel bg:bul bn:ben ca:cat cs:ces da:dan de:deu el:ell en:eng es:spa et:est eu:eus fa:fas fi:fin fr:fra gu:guj he:heb ' +
    'hi:hin hr:hrv,bos hu:hun hy:hye is:isl it:ita ja:jpn ka:kat kn:kan ko:kor ku:kmr,kur lo:lao lt:lit lv:lav ml:mal mr:mar ms:msa,ind nl:nld ' +
    'no:nor or:ori pa:pan pl:pol pt:por ro:ron ru:rus sk:slk sl:slv sq:sqi sr:srp sv:swe ta:tam te:tel th:tha tl:fil,tgl tr:tur uk:ukr ur:urd ' +
    'vi:vie yo:yor zh:chi_sim,chi_tra'
  )
    .split(' ')
    .map((pair) => pair.split(':'))
    .map(([iso = '', codes = '']) => [iso, codes.split(',')]),
)

/** Returns Tesseract's code of an ISO 639-1 language: an installed one, else the usual one. */
export function tesseractCode(iso: string, installed: Pick<ReadonlySet<string>, 'has'>): string {
  const codes = tesseractCodes[iso] ?? []
  return codes.find((code) => installed.has(code)) ?? codes[0] ?? iso
}

const isoByCode = new Map(Object.entries(tesseractCodes).flatMap(([iso, codes]) => codes.map((code) => [code, iso] as const)))

/** Returns the ISO 15924 code of the script of a Tesseract language, such as Cyrl for `rus`; null for languages that no detector knows. */
export function scriptOf(code: string): string | null {
  const iso = isoByCode.get(code)
  if (iso === undefined) return null
  return iso === 'zh' ? 'Hani' : (new Intl.Locale(iso).maximize().script ?? null)
}

/** Languages that stand for their script. */
const usualCodes = ['rus', 'ara', 'hin', 'chi_sim']

/** Returns the languages of a script, the most usual one first. */
export const codesOfScript = (script: string): string[] => [...usualCodes, ...isoByCode.keys()].filter((code) => scriptOf(code) === script)
