/** Words around dates in further languages than the seven of find-date.ts. */
import { foldText } from './fold-text.ts'

interface Words {
  /** Names of the date of the document. */
  readonly date: string
  /** Words before dates that are never the date of the document: of birth and death, of payment, of validity. */
  readonly other: string
  /** Words directly before the end of a period or a deadline. */
  readonly until: string
  /** Words before dates of other events, and the beginning of a period. */
  readonly weak: string
}

/** Beginnings of words end with `*`. `_` is a space within a name. */
const wordsByCode: Readonly<Record<string, Words>> = {
  pol: {
    date: 'data dnia data_wystawienia data_sporządzenia data_dokumentu',
    other: 'ur urodz* zm zmar* termin* płat* zapłat* ważn* wygas* najpóźniej',
    until: 'do do_dnia',
    weak: 'od z_dnia dostaw* sprzedaży okres*',
  },
  ces: {
    date: 'datum dne datum_vystavení',
    other: 'nar naroz* zemř* splatn* platnost* platí zaplať* nejpozději lhůt*',
    until: 'do do_dne',
    weak: 'od ze_dne dodán* zdanitel* plnění období',
  },
  slk: {
    date: 'dátum dňa dátum_vystavenia',
    other: 'nar narod* zomr* splatn* platnos* platí zaplať* najneskôr lehot*',
    until: 'do do_dňa',
    weak: 'od zo_dňa dodan* plnenia obdobi*',
  },
  slv: {
    date: 'datum dne datum_izdaje',
    other: 'rojen* rojst* umrl* zapad* plačil* velja* najkasneje rok*',
    until: 'do',
    weak: 'od z_dne dobav* storitv* obdobj*',
  },
  hrv: {
    date: 'datum dana datum_izdavanja datum_računa',
    other: 'rođ* umrl* umro dospij* dospeć* plaćanj* vrijedi* važi* najkasnije rok*',
    until: 'do',
    weak: 'od isporu* razdoblj*',
  },
  srp: {
    date: 'датум дана датум_издавања',
    other: 'рођ* умрл* умро доспе* плаћањ* важи* најкасније рок*',
    until: 'до',
    weak: 'од испору* период*',
  },
  hun: {
    date: 'kelt kelte dátum dátuma keltezés kiállítás_dátuma számla_kelte',
    other: 'szül* született elhunyt meghalt határid* esedékes* lejár* érvényes* fizet*',
    until: '',
    weak: 'teljesít* szállít* időszak*',
  },
  rus: {
    date: 'дата дата_составления дата_документа',
    other: 'род родил* рожд* умер* скончал* срок* оплатить оплатите действителен действительн* действует позднее истек*',
    until: 'до по',
    weak: 'с со поставк* отгруз* период*',
  },
  ukr: {
    date: 'дата дата_складання',
    other: 'народ* помер* термін* строк* сплатити дійсн* пізніше',
    until: 'до по',
    weak: 'з із постав* період*',
  },
  bul: {
    date: 'дата дата_на_издаване',
    other: 'роден* рожд* почина* срок* плащан* валид* падеж*',
    until: 'до',
    weak: 'достав* период*',
  },
  swe: {
    date: 'datum *datum den',
    other: 'född* födels* avled* död* förfall* senast giltig* betal* utgår*',
    until: 'till t.o.m',
    weak: 'från leverans* period*',
  },
  dan: {
    date: 'dato *dato den',
    other: 'født* fødsel* død* forfald* senest gyldig* betal* udløb* frist*',
    until: 'til t.o.m',
    weak: 'fra lever* period*',
  },
  nor: {
    date: 'dato *dato den',
    other: 'født* fødsel* død* forfall* senest gyldig* betal* utløp* frist*',
    until: 'til t.o.m',
    weak: 'fra lever* period*',
  },
  fin: {
    date: 'päivä päiväys päivämäärä pvm *päiväys *päivämäärä',
    other: 'synt synty* kuol* eräpäiv* maksa* maksett* maksun voimassa viimeistään umpeutu*',
    until: '',
    weak: 'toimitus* alkaen ajalla',
  },
  est: {
    date: 'kuupäev *kuupäev',
    other: 'sünd* surn* surm* tähtaeg* maksetäht* maksta kehtiv* kehtib hiljemalt',
    until: 'kuni',
    weak: 'alates tarn* period*',
  },
  lav: {
    date: 'datums datum*',
    other: 'dzim* miris mirusi termiņ* apmaks* derīg* jāsamaksā',
    until: 'līdz',
    weak: 'no piegād* period*',
  },
  lit: {
    date: 'data išrašymo_data sąskaitos_data',
    other: 'gimė gim gimim* gimus* mirė mirt* terminas apmok* sumok* galioja*',
    until: 'iki',
    weak: 'nuo pristat* laikotarp*',
  },
  tur: {
    date: 'tarih tarihi fatura_tarihi düzenleme_tarihi',
    other: 'doğum* ölüm* vade* son_ödeme geçerli* bitiş*',
    until: '',
    weak: 'teslim* sevk* dönem*',
  },
  ron: {
    date: 'data data_emiterii data_facturii din',
    other: 'născut* nasc* naștere* decedat* scaden* plata plată plății plătit* valabil* expir* termen*',
    until: 'până_la până_în',
    weak: 'de_la livr* perioad*',
  },
  ell: {
    date: 'ημερομηνία ημ/νία ημερομηνία_έκδοσης',
    other: 'γενν* γέννησ* απεβίωσ* λήξ* πληρωμ* προθεσμ* ισχύ*',
    until: 'έως μέχρι ως',
    weak: 'από παράδοσ* περίοδ*',
  },
  ind: {
    date: 'tanggal tgl',
    other: 'lahir* wafat* jatuh_tempo berlaku* kedaluwarsa paling_lambat',
    until: 'sampai hingga s/d',
    weak: 'sejak mulai pengiriman periode',
  },
  vie: {
    date: 'ngày',
    other: 'ngày_sinh sinh_ngày hạn_chót thời_hạn hết_hạn hiệu_lực',
    until: 'đến đến_ngày',
    weak: 'từ từ_ngày giao_hàng',
  },
  cat: {
    date: 'data data_de_la_factura',
    other: 'nascu* naixe* nasc* mort morta venciment* pagament* caduc* vàlid*',
    until: 'fins_al fins_a',
    weak: 'des_de lliuram* període*',
  },
  ara: {
    date: 'تاريخ التاريخ بتاريخ تاريخ_الفاتورة',
    other: 'الميلاد ميلاد مواليد الوفاة الاستحقاق استحقاق الانتهاء انتهاء ينتهي صالح* صلاحية',
    until: 'حتى إلى',
    weak: 'من منذ التسليم التوريد',
  },
  jpn: {
    date: '日付 発行日 作成日 請求日 年月日',
    other: '生年月日 生まれ 誕生 死亡 期限 期日 有効 締切',
    until: '',
    weak: '納品 納入 期間 開始',
  },
  chi: {
    date: '日期 时间 時間 发布 發布',
    other: '出生 生于 生於 逝世 截止 截至 到期 有效 期限 失效',
    until: '至 到',
    weak: '自 从 從 交货 交貨 期间 期間',
  },
  kor: {
    date: '날짜 일자 작성일 발행일 작성일자 발행일자',
    other: '생년월일 출생 사망 만료* 기한 납기* 유효* 마감*',
    until: '',
    weak: '납품* 기간 시작*',
  },
}

/** Codes of languages that use the words of another. */
const sameWords: Readonly<Record<string, string>> = { bos: 'hrv', msa: 'ind' }

/** What follows the end of a period or a deadline. */
export const untilAfter = new RegExp(
  `^\\s?(?:-ig(?!\\p{L})|(?:'\\p{L}{1,3} |tarihine )?kadar|${foldText('mennessä|asti|saakka|까지|まで|迄|前')})`,
  'u',
)

export interface Patterns {
  readonly date: RegExp
  readonly other: RegExp
  readonly until: RegExp
  readonly weak: RegExp
}

const patternsByCode = new Map(Object.entries(wordsByCode).map(([code, words]) => [code, compile(words)]))

/** Returns the patterns of the text before a date in some languages, which are Tesseract codes. */
export const patternsOf = (languages: readonly string[]): Patterns[] =>
  languages.flatMap((language) => {
    const code = language.split('_')[0]!
    return patternsByCode.get(sameWords[code] ?? code) ?? []
  })

/** Patterns of the text before a date in all further languages. */
export const allPatterns: readonly Patterns[] = [...patternsByCode.values()]

function compile({ date, other, until, weak }: Words): Patterns {
  const before = (words: string, rest: string) => {
    const alternatives = foldText(words)
      .split(' ')
      .filter((word) => word !== '')
      .map((word) => word.replaceAll('.', '\\.').replaceAll('_', '\\s').replaceAll('*', '\\p{L}*'))
    if (alternatives.length === 0) return /(?!)/
    const [start, end] = isUnspaced(words) ? ['', ''] : ['(?<!\\p{L})', '(?!\\p{L})']
    return new RegExp(`${start}(?:${alternatives.join('|')})${end}${rest}`, 'u')
  }
  return {
    date: before(date, "[\\s:.,)'|(-]{0,8}$"),
    other: before(other, '[^\\n]{0,24}$'),
    until: before(until, '\\s{0,3}$'),
    weak: before(weak, '[^\\n]{0,16}$'),
  }
}

/** Chinese and Japanese have no spaces. */
function isUnspaced(words: string): boolean {
  return /\p{Script=Han}/u.test(words)
}
