/** Texts in encodings with one byte per character, without a declaration. */
import iconv from 'iconv-lite'
import { describe, expect, test } from 'vitest'
import { decode } from '../../src/extract/readers/decode.ts'

const texts: Record<string, [encodings: string[], sentences: string[]]> = {
  Polish: [
    ['windows-1250', 'iso-8859-2', 'cp852', 'maccenteuro'],
    [
      'Faktura została wystawiona dnia 3 marca, a należność wynosi tysiąc dwieście złotych.',
      'Prosimy o wpłatę na wskazany rachunek w ciągu czternastu dni. Dziękujemy za współpracę.',
    ],
  ],
  Czech: [
    ['windows-1250', 'iso-8859-2', 'cp852'],
    [
      'Smlouva o nájmu bytu uzavřená mezi pronajímatelem a nájemcem.',
      'Nájemné je splatné vždy k pátému dni měsíce. Obě strany prohlašují, že si smlouvu přečetly.',
    ],
  ],
  German: [
    ['windows-1252', 'cp850', 'macintosh'],
    [
      'Die Straße nach Köln führt über Brücken; äußerst schön, größer als früher.',
      'Bitte überweisen Sie den fälligen Betrag. Mit freundlichen Grüßen',
    ],
  ],
  French: [
    ['windows-1252', 'cp850', 'macintosh'],
    [
      'Monsieur, nous vous prions de régler la facture ci-jointe à réception.',
      'Les garçons étaient déjà arrivés à la forêt où le maître les attendait.',
    ],
  ],
  Spanish: [
    ['windows-1252', 'cp850', 'macintosh'],
    ['El año pasado la señora firmó el contrato en Málaga.', '¿Cuándo podrá usted pagar? El niño comió y después durmió.'],
  ],
  Russian: [
    ['windows-1251', 'koi8-r', 'ibm866', 'iso-8859-5', 'maccyrillic'],
    [
      'Договор аренды квартиры заключён между арендодателем и арендатором.',
      'Просим вас оплатить счёт в течение десяти дней. С уважением, Иванов.',
    ],
  ],
  Greek: [
    ['windows-1253'],
    ['Το συμβόλαιο ενοικίασης υπογράφηκε στην Αθήνα.', 'Παρακαλούμε να εξοφλήσετε το τιμολόγιο εντός δέκα ημερών.'],
  ],
  Turkish: [
    ['windows-1254'],
    ['Kira sözleşmesi üç Mart tarihinde imzalandı.', 'Faturayı on gün içinde ödemenizi rica ederiz. Saygılarımızla, Şahin.'],
  ],
}

describe.each(Object.entries(texts))('%s', (_, [encodings, sentences]) => {
  test.each(encodings)('in %s', (encoding) => {
    for (const text of [...sentences, sentences.join('\r\n').repeat(300)]) expect(decode(iconv.encode(text, encoding))).toBe(text)
  })
})

test.each([
  'Date,Amount\n2024-03-05,"-£1.20"\n2024-03-06,"£1999.33"\n'.repeat(100),
  'The total is £129.99 including VAT. It’s payable – please – within 30 days.',
  'Tea,€3.50',
  'Total £50',
  'Heat it to 180 °C.',
  'Facture n° 4711',
  'Copyright © 2024 ACME. All rights reserved.',
  '§ 12 and § 13',
  '§ 5 Kündigung',
  'Año;Importe',
  'Genève',
  'Größe: 5',
  'Straße',
  'GRÖßE',
])('few signs and letters beyond ASCII are Western: %j', (text) => {
  expect(decode(iconv.encode(text, 'windows-1252'))).toBe(text)
})

test.each([
  ['shift_jis', '請求書.pdf'],
  ['shift_jis', 'さしすせそ\nたちつてと'],
  ['shift_jis', 'テスト\r\nテキスト'],
  ['euc-jp', 'ありがとうございます'],
  ['cp850', 'Le château, la bâtisse et le gâteau'],
  ['windows-1251', 'В 2024 году площадь 54 м2'],
])('a short text in %s: %s', (encoding, text) => {
  expect(decode(iconv.encode(text, encoding))).toBe(text)
})

test.each(['utf-16', 'UTF-16LE', 'ucs-2'])('a text of one byte per character that declares itself as %s is guessed', (declared) => {
  const text = 'Die Straße nach Köln führt über Brücken'
  expect(decode(iconv.encode(text, 'windows-1252'), declared)).toBe(text)
  expect(decode(iconv.encode(text, 'utf-16le'), declared)).toBe(text)
})

test.each(['utf-8', 'UTF8'])(
  'a text that declares itself as %s and is not is guessed; with more letters in UTF-8 than others it is damaged',
  (declared) => {
    const text = 'Herr Müller wohnt in der Straße nach Köln'
    expect(decode(iconv.encode(text, 'windows-1252'), declared)).toBe(text)
    expect(decode(iconv.encode('Предлагает со склада в Москве', 'windows-1251'), declared)).toBe('Предлагает со склада в Москве')
    expect(decode(Buffer.concat([Buffer.from(text), Buffer.from([0xe4])]), declared)).toBe(`${text}\ufffd`)
  },
)

test('any bytes are decoded to text', () => {
  let seed = 1
  for (let length = 0; length < 400; length++) {
    const bytes = Uint8Array.from({ length }, () => {
      seed = (seed * 48271) % 2147483647
      return 0x20 + (seed % 0xe0)
    })
    expect(decode(bytes).length).toBeGreaterThanOrEqual(length / 4)
  }
})

test('one digit per line, or between tabs, is not UTF-16', () => {
  for (const text of ['1\n2\n3\n4\n5\n', '7\t0\t3\t1\t5\t']) expect(decode(Buffer.from(text))).toBe(text)
})
