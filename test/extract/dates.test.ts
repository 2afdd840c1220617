import sharp, { type Exif } from 'sharp'
import { expect, test } from 'vitest'
import { findDate } from '../../src/extract/dates/find-date.ts'
import { readExifTime } from '../../src/extract/readers/exif.ts'
import { mailDate } from '../../src/extract/readers/mail/mail.ts'

const today = '2026-11-22'
const dateOf = (text: string, language = 'eng') => findDate(text, language, today)?.date ?? null

test('letters in seven languages have the date of their head', () => {
  const cases: [string, string, string][] = [
    ['deu', 'Muster GmbH\n\nBerlin, den 3. März 2024\n\nSehr geehrte Frau Ada,', '2024-03-03'],
    ['deu', 'Wien, 3. Jänner 2024\nBetreff: Angebot', '2024-01-03'],
    ['deu', 'Rechnung Nr. 4711\nRechnungsdatum: 03.03.2024\nFällig am: 17.03.2024', '2024-03-03'],
    ['deu', 'Linz, 3. Feber 2024\nBetreff: Angebot', '2024-02-03'],
    ['nld', 'Utrecht, 3 mrt. 2024\nBetreft: offerte', '2024-03-03'],
    ['spa', 'Lima, 3 de setiembre de 2024\nAsunto: oferta', '2024-09-03'],
    ['deu', 'Datum\n03.03.24\nKundennummer 12.34.56', '2024-03-03'],
    ['deu', 'Beleg\n03. Mrz. 2024', '2024-03-03'],
    ['deu', 'Köln, 3.2.98\n\nSehr geehrte Frau Ada,', '1998-02-03'],
    ['deu', 'Rechnungsdatum: 5.12.22', '2022-12-05'],
    ['fra', 'Paris, le 3 mars 2024\n\nMadame,', '2024-03-03'],
    ['fra', 'Fait à Lyon le 1er août 2023', '2023-08-01'],
    ['fra', 'Facture\nDate : 03/04/2024', '2024-04-03'],
    ['ita', 'Roma, lì 3 marzo 2024\nOggetto: preventivo', '2024-03-03'],
    ['nld', 'Utrecht, 3 maart 2024\nBetreft: offerte', '2024-03-03'],
    ['nld', 'Factuurdatum: 03-03-2024', '2024-03-03'],
    ['por', 'Lisboa, 3 de março de 2024\nAssunto: proposta', '2024-03-03'],
    ['spa', 'Madrid, a 3 de marzo de 2024\nAsunto: oferta', '2024-03-03'],
    ['spa', 'Fecha de emisión: 03/03/2024', '2024-03-03'],
    ['eng', 'March 3, 2024\n\nDear Ada,', '2024-03-03'],
    ['eng', '3rd March 2024\n\nDear Ada,', '2024-03-03'],
    ['eng', 'This agreement is dated this 3rd day of March, 2024', '2024-03-03'],
    ['eng', 'Signed on the 21st day\nof March 2024', '2024-03-21'],
    ['eng', 'Invoice date: 2024-03-03', '2024-03-03'],
    ['eng', 'Date: 3-Mar-24', '2024-03-03'],
    ['eng', 'Date: 2024-Mar-03', '2024-03-03'],
    ['eng', 'Date: 3 March ’24', '2024-03-03'],
    ['eng', 'Sun Mar  3 06:28:30 UTC 2024\ndisk usage', '2024-03-03'],
    ['deu', 'Preisliste\nStand: 03/2024', '2024-03-01'],
    ['deu', 'Preisliste (Stand 3.2024)', '2024-03-01'],
    ['eng', 'Price list\nAs of 03/2024', '2024-03-01'],
    ['eng', `Price list, as of March 2024, of all ${'goods '.repeat(9)}`, '2024-03-01'],
    // The names of months tell the language better than the setting.
    ['eng', 'Berlin, den 3. Dezember 2023', '2023-12-03'],
    // As OCR reads it.
    ['deu', 'Berlin, den 3 . Marz 2024', '2024-03-03'],
  ]
  for (const [language, text, date] of cases) expect([text, dateOf(text, language)]).toEqual([text, date])
})

test('a plain day is read before each month', () => {
  const names = {
    eng: 'January February March April May June July August September October November December',
    fra: 'janvier février mars avril mai juin juillet août septembre octobre novembre décembre',
    ita: 'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
    nld: 'januari februari maart april mei juni juli augustus september oktober november december',
  }
  for (const [language, months] of Object.entries(names))
    for (const [index, month] of months.split(' ').entries())
      expect([month, dateOf(`Paris, 4 ${month} 2024`, language)]).toEqual([month, `2024-${String(index + 1).padStart(2, '0')}-04`])
})

test('letters in further languages have the date of their head', () => {
  const cases: [string, string, string][] = [
    ['pol', 'Kraków, dnia 24 grudnia 2024 r.\nSzanowni Państwo', '2024-12-24'],
    ['pol', 'Data wystawienia: 24 gru 2024', '2024-12-24'],
    ['ces', 'V Praze dne 24. prosince 2024', '2024-12-24'],
    ['slk', 'V Bratislave dňa 24. decembra 2024', '2024-12-24'],
    ['slv', 'Ljubljana, 24. maja 2024', '2024-05-24'],
    ['hrv', 'Zagreb, 24. prosinca 2024.', '2024-12-24'],
    ['bos', 'Sarajevo, 3. novembra 2024. godine', '2024-11-03'],
    ['srp', 'Београд, 24. децембра 2024. године', '2024-12-24'],
    ['rus', 'г. Москва «24» декабря 2024 г.', '2024-12-24'],
    ['rus', 'Счет на оплату № 5 от 24 мая 2024г.', '2024-05-24'],
    ['ukr', 'м. Київ, 24 ЛЮТОГО 2024 року', '2024-02-24'],
    ['bul', 'София, 24 декември 2024 г.', '2024-12-24'],
    ['hun', 'Budapest, 2024. december 24.\n\nTisztelt Ada!', '2024-12-24'],
    ['hun', 'Budapest, 2024. március 5-én', '2024-03-05'],
    ['hun', 'Kelt: 2024. 12. 24.', '2024-12-24'],
    ['swe', 'Stockholm den 24 maj 2024', '2024-05-24'],
    ['dan', 'København, den 24. marts 2024', '2024-03-24'],
    ['nor', 'Oslo, 24. desember 2024', '2024-12-24'],
    ['isl', 'Reykjavík, 24. ágúst 2024', '2024-08-24'],
    ['fin', 'Helsingissä 24. joulukuuta 2024', '2024-12-24'],
    ['est', 'Tallinn, 24. detsember 2024', '2024-12-24'],
    ['lav', 'Rīgā, 2024. gada 24. decembrī', '2024-12-24'],
    ['lit', 'Vilnius, 2024 m. gruodžio 24 d.', '2024-12-24'],
    ['tur', 'İSTANBUL, 24 KASIM 2024', '2024-11-24'],
    ['ron', 'București, 24 decembrie 2024', '2024-12-24'],
    ['ell', 'ΑΘΗΝΑ, 24 ΔΕΚΕΜΒΡΙΟΥ 2024', '2024-12-24'],
    ['cat', 'Barcelona, 24 d’agost de 2024', '2024-08-24'],
    ['vie', 'Hà Nội, ngày 24 tháng 12 năm 2024', '2024-12-24'],
    ['ind', 'Jakarta, 24 Desember 2024', '2024-12-24'],
    ['fil', 'Disyembre 24, 2024', '2024-12-24'],
    ['cym', '24 Rhagfyr 2024', '2024-12-24'],
    ['hye', '24 դեկտեմբերի, 2024 թ.', '2024-12-24'],
    ['kat', '24 დეკემბერი, 2024', '2024-12-24'],
    ['hin', '24 दिसंबर 2024', '2024-12-24'],
    ['ara', '24 ديسمبر 2024', '2024-12-24'],
    ['ara', 'القاهرة، ٢٤ ديسمبر ٢٠٢٤', '2024-12-24'],
    ['ara', 'التاريخ: ٢٤/١٢/٢٠٢٤', '2024-12-24'],
    ['hin', '२४ दिसंबर २०२४', '2024-12-24'],
    ['ben', '২৪ ডিসেম্বর ২০২৪', '2024-12-24'],
    ['heb', '24 בדצמבר 2024', '2024-12-24'],
    ['chi_sim', '合同\n本合同于2024年12月24日签订', '2024-12-24'],
    ['chi_tra', '中華民國113年12月24日', '2024-12-24'],
    ['jpn', '請求書\n発行日　２０２４年１２月２４日', '2024-12-24'],
    ['jpn', '令和元年6月2日', '2019-06-02'],
    ['kor', '서울, 2024년 12월 24일', '2024-12-24'],
    ['kor', '작성일: 2024. 12. 24.', '2024-12-24'],
    ['kor', '2024. 12. 24. 15:30', '2024-12-24'],
    // A short text has no certain language, and the detected or chosen language can be wrong.
    ['', 'Kraków, 24 grudnia 2024', '2024-12-24'],
    ['eng', 'Kraków, 24 grudnia 2024', '2024-12-24'],
    ['', 'Budapest, 2024. december 24.', '2024-12-24'],
    // A number and a word before the date.
    ['deu', '0. Auflage, 31. Dezember 2016', '2016-12-31'],
  ]
  for (const [language, text, date] of cases) expect([language, text, dateOf(text, language)]).toEqual([language, text, date])
})

test('a month name that differs between languages is read in the language of the text only', () => {
  expect(dateOf('Warszawa, 3 listopada 2024 r.', 'pol')).toBe('2024-11-03')
  expect(dateOf('Zagreb, 3. listopada 2024.', 'hrv')).toBe('2024-10-03')
  expect(dateOf('Praha, 3. srp 2024', 'ces')).toBe('2024-08-03')
  expect(dateOf('Zagreb, 3. srp 2024', 'hrv')).toBe('2024-07-03')
  for (const language of ['', 'eng', 'slv', 'pol+hrv']) expect([language, dateOf('3 listopada 2024', language)]).toEqual([language, null])
})

test('words and numbers that only look like dates of further languages are none', () => {
  const none: [string, string][] = [
    ['eng', 'Mart 24, 2024'],
    ['eng', 'K Mart 2024'],
    ['pol', '24 gru 24'],
    ['pol', '24 kotów 2024'],
    ['eng', 'in 2023. May 24 new members came'],
    ['eng', 'J. Chem. 2001. 3. 12'],
    ['hun', '2024. 12. 24. 3'],
    ['chi_sim', '12024年12月24日'],
    ['chi_sim', '2024年13月24日'],
    ['kor', '2027년 12월 24일'],
    ['swe', 'UPTIME 3 "augusti 2022"'],
    ['und', '24 foo 2024'],
    ['tha', 'วันที่ 24/12/67'],
    ['fas', 'تاریخ: 03/10/04'],
    ['ara', 'التاريخ: ١٢/٠٥/١٤٤٥'],
    ['ara', 'التاريخ: ١٢/٠٥/٤٥'],
  ]
  for (const [language, text] of none) expect([language, text, dateOf(text, language)]).toEqual([language, text, null])
})

test('dates of birth and of payment and the ends of periods in further languages are not the document date', () => {
  const none: [string, string][] = [
    ['pol', 'ur. 24 grudnia 1960'],
    ['eng', 'ur. 24 grudnia 1960'],
    ['pol', 'Termin płatności: 24.12.2024'],
    ['pol', 'do dnia 24 grudnia 2024'],
    ['ces', 'Datum splatnosti: 24. prosince 2024'],
    ['slk', 'narodený 24. decembra 1960'],
    ['hun', 'Fizetési határidő: 2024. december 24.'],
    ['hun', '2024. december 24-ig'],
    ['rus', 'Дата рождения: 24 декабря 1960 г.'],
    ['ukr', 'до 24 грудня 2024 р.'],
    ['swe', 'Förfallodatum: 2024-12-24'],
    ['dan', 'født 24. december 1960'],
    ['nor', 'Forfallsdato: 24.12.2024'],
    ['fin', 'Eräpäivä: 24.12.2024'],
    ['tur', 'Son ödeme tarihi: 24 Kasım 2024'],
    ['ron', 'Data scadenței: 24 decembrie 2024'],
    ['ell', 'Ημερομηνία λήξης: 24 Δεκεμβρίου 2024'],
    ['ind', 'Lahir: 24 Desember 1960'],
    ['ara', 'تاريخ الميلاد: ٢٤ ديسمبر ١٩٦٠'],
    ['ara', 'تاريخ الاستحقاق: ٢٤/١٢/٢٠٢٤'],
    ['chi_sim', '出生日期：1990年1月2日'],
    ['jpn', '支払期限：2024年12月24日'],
    ['kor', '생년월일: 1990년 1월 2일'],
  ]
  for (const [language, text] of none) expect([language, text, dateOf(text, language)]).toEqual([language, text, null])
  expect(dateOf('Termin: 3. März 2024', 'deu')).toBe('2024-03-03')
  expect(dateOf('Pismo z dnia 3 marca 2024\nKraków, dnia 5 marca 2024', 'pol')).toBe('2024-03-05')
})

test('the date of the document is neither that of an order or a delivery, nor the second column, nor one in a sentence', () => {
  const cases: [string, string, string][] = [
    ['deu', 'Lieferdatum: 28.02.2024\nRechnungsdatum: 05.03.2024', '2024-03-05'],
    ['deu', 'Bestelldatum: 28.02.2024\nRechnungsdatum: 05.03.2024', '2024-03-05'],
    ['nld', 'Leverdatum: 28-02-2024\nFactuurdatum: 05-03-2024', '2024-03-05'],
    ['fra', 'Date de livraison : 03/03/2024\nDate de la facture : 05/03/2024', '2024-03-05'],
    ['spa', 'Fecha de entrega: 03/03/2024\nFecha de la factura: 05/03/2024', '2024-03-05'],
    ['eng', 'Order Date: March 1, 2024\nInvoice Date: March 5, 2024', '2024-03-05'],
    ['deu', 'Lieferdatum: 28.02.2024', '2024-02-28'],
    ['deu', 'Rechnungsdatum Fälligkeitsdatum\n05.03.2024 04.04.2024', '2024-03-05'],
    ['eng', 'Invoice number\tInvoice date\tDue date\n4711\t03/25/2024\t04/24/2024', '2024-03-25'],
    ['deu', 'Rechnungsnr. Datum Fällig am\n4711 05.03.2024 04.04.2024', '2024-03-05'],
    ['eng', 'March 10, 2024\n\nDear Ada,\nAs of March 3, 2024, it costs more', '2024-03-10'],
    ['eng', 'March 10, 2024\n\nDear Ada,\nAs of 02/2024, it costs more', '2024-03-10'],
    ['eng', '12 August 2024\nYour visit on 3 July 2024', '2024-08-12'],
  ]
  for (const [language, text, date] of cases) expect([text, dateOf(text, language)]).toEqual([text, date])
})

test('a month is the first day with less confidence than a day', () => {
  const found = (text: string) => findDate(text, 'deu', today)
  expect(found('Stand: 03/2024')).toMatchObject({ date: '2024-03-01' })
  expect(found('Stand: 03/2024')?.confidence).toBeLessThan(found('Stand: 01.03.2024')?.confidence ?? 0)
})

test('dates of birth and of payment, periods and future dates are not the document date', () => {
  const none = [
    'Date of birth: March 3, 1960',
    'geboren am 3. März 1960 in Bonn',
    'Né le 3 mars 1960',
    'Nata il 3 marzo 1960',
    'Geboortedatum: 03-03-1960',
    'Data de nascimento: 03/03/1960',
    'Fecha de nacimiento: 03/03/1960',
    'Payable by March 3, 2024',
    'Zahlbar bis 17.03.2024',
    'Échéance : 17/03/2024',
    'Scadenza: 17/03/2024',
    'Date limite de paiement : 17/03/2024',
    'Fecha límite de pago: 17/03/2024',
    'Bitte überweisen Sie bis 17.03.2024',
    'Faelligkeitsdatum: 17.03.2024',
    'Mindesthaltbarkeitsdatum: 17.03.2024',
    'Uiterste betaaldatum 17-03-2024',
    'Invoice date: 2027-01-01',
    'Date: 30 February 2024',
    'Konto 03.03.2024.11',
    'Build 2024-Mar-03-17',
    'Tel. 0302/03/2024',
    'Version 1.2.10 of 10.1.12',
    '1.2.10\nGrundlagen',
    'Apache, 2.4.12',
    'Apache, 2.4.12\nSamba, 4.1.12\nPerl',
    'Rechnung 03/2024',
    'Karte gültig bis 03/2024',
    'Stand: 13/2024',
    'Stand: 03/2024-17',
    'Stand: 12/2026',
    'IBAN DE02 1203 0000 0000 2020 51',
    'Leistungszeitraum 01.01.2024 - 31.01.2024',
    '',
  ]
  for (const text of none) expect([text, dateOf(text, 'deu')]).toEqual([text, null])
  expect(dateOf('geb. 3. März 1960\nBonn, den 4. Mai 2021\nbitte zahlen Sie bis zum 1. Juni 2021', 'deu')).toBe('2021-05-04')
  expect(dateOf('Ihr Schreiben vom 12. Februar 2024\nKöln, 3. März 2024', 'deu')).toBe('2024-03-03')
})

test('the day from which computers count time is the date of letters and labels only', () => {
  expect(dateOf('the date on which it expires, as days after January 1, 1970')).toBe(null)
  expect(dateOf('1970-01-01 00:00:00 UTC')).toBe(null)
  expect(dateOf('days after January 1, 1970\n\nManual page of 3 March 2024')).toBe('2024-03-03')
  expect(dateOf('Berlin, den 1. Januar 1970\n\nLiebe Ada,', 'deu')).toBe('1970-01-01')
  expect(dateOf('Date: January 1, 1970')).toBe('1970-01-01')
})

test('ambiguous days and months are read by the language with less confidence, or by the other dates', () => {
  const found = (text: string, language: string) => findDate(text, language, today)
  const certain = found('Date: 25/04/2024', 'eng')
  const ambiguous = found('Date: 03/04/2024', 'eng')
  expect([certain?.date, ambiguous?.date, found('Date: 03/04/2024', 'fra')?.date]).toEqual(['2024-04-25', '2024-03-04', '2024-04-03'])
  expect(ambiguous?.confidence).toBeLessThan(certain?.confidence ?? 0)
  expect(found('Date: 03/04/2024\nOrdered 25/03/2024', 'eng')?.date).toBe('2024-04-03')
  expect(found('Date: 24-03-99', 'nld')?.date).toBe('1999-03-24')
})

test('only the head of a hostile text is searched', () => {
  for (const text of ['1 ', 'a', '1.1.', 'mars 1 ', 'date ', ' ', '.', '1 de ', '1 a 2024 ', '24 грудня ', '2024. ', '2024年', '민', '𐌰'])
    expect(dateOf(`${text.repeat(2e6)}\nBerlin, den 3. März 2024`)).toBe(null)
})

test('the date of a mail is the day in the time zone of its sender', () => {
  expect(mailDate('Sun, 3 Mar 2024 23:30:00 -0800')).toBe('2024-03-03')
  expect(mailDate('03 Mar 2024 00:30 +1300')).toBe('2024-03-03')
  for (const text of ['', 'yesterday', '3 Foo 2024', '3 bma 2024']) expect([text, mailDate(text)]).toEqual([text, undefined])
})

test('the time of a picture is that of the exposure, else of the scan, else of the file; truncated or empty blocks have none', async () => {
  const exifOf = async (exif: Exif) => {
    const jpeg = await sharp({ create: { width: 1, height: 1, channels: 3, background: 'red' } })
      .jpeg()
      .withExif(exif)
      .toBuffer()
    return (await sharp(jpeg).metadata()).exif!
  }
  const changed = { IFD0: { DateTime: '2019:05:06 07:08:09' } }
  const taken = await exifOf({ ...changed, IFD2: { DateTimeOriginal: '2018:01:02 03:04:05' } })
  expect(readExifTime(taken)).toBe('2018-01-02T03:04:05')
  expect(readExifTime(await exifOf(changed))).toBe('2019-05-06T07:08:09')
  const digitized = { DateTimeOriginal: '0000:00:00 00:00:00', DateTimeDigitized: '2018:01:02 03:04:05' }
  expect(readExifTime(await exifOf({ ...changed, IFD2: digitized }))).toBe('2018-01-02T03:04:05')
  expect(readExifTime(await exifOf({ IFD0: { DateTime: '0000:00:00 00:00' } }))).toBe(undefined)
  const times = Array.from({ length: taken.length }, (_, length) => readExifTime(taken.subarray(0, length)))
  expect(times.filter((time) => time !== undefined && !/^201[89]-/.test(time))).toEqual([])
})
