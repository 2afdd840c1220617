/** Documents and queries with judged relevance, in English, German and French: 3 the wanted document, 2 good, 1 related. */

export interface Judged {
  readonly name: string
  readonly language: string
  readonly title: string
  readonly content: string
}

export interface Query {
  readonly q: string
  readonly fuzzy?: boolean
  /** relevance by name of document; others are irrelevant */
  readonly expected: Readonly<Record<string, 1 | 2 | 3>>
}

const document = (name: string, language: string, title: string, content: string): Judged => ({ name, language, title, content })

export const documents: readonly Judged[] = [
  document(
    'phone-bill-jan',
    'eng',
    'Telecom invoice January 2026',
    'Your telephone bill for January. Amount due 39.90 EUR for line and internet. Please pay this invoice by 14 February.',
  ),
  document(
    'phone-bill-feb',
    'eng',
    'Telecom invoice February 2026',
    'Your telephone bill for February. Amount due 41.20 EUR. Please pay this invoice by 14 March.',
  ),
  document(
    'phone-contract',
    'eng',
    'Telephone contract',
    'Contract for a telephone line and internet with the telecom company. Term 24 months, notice of termination three months before the end.',
  ),
  document(
    'power-bill',
    'eng',
    'Electricity bill 2025',
    'Annual statement of electricity. Consumption 2,310 kWh. The payment of the invoices is monthly. Credit 85.13 EUR.',
  ),
  document(
    'heating',
    'eng',
    'Heating costs 2025',
    'Statement of heating and hot water for the apartment. Additional payment 120 EUR, to be paid to the landlord.',
  ),
  document(
    'lease',
    'eng',
    'Lease of the apartment',
    'Tenancy agreement between landlord and tenant. Rent 950 EUR monthly, deposit three rents, notice period three months.',
  ),
  document(
    'lease-garage',
    'eng',
    'Garage lease',
    'Lease of a parking space in the garage. Rent 60 EUR. The landlord may terminate with one month of notice.',
  ),
  document(
    'deposit',
    'eng',
    'Return of the deposit',
    'After the end of the tenancy the deposit of 2,850 EUR is returned within six months, less repairs of damages.',
  ),
  document(
    'tax-2024',
    'eng',
    'Income tax assessment 2024',
    'Notice of assessment for income tax of the year 2024. Refund 412.00 EUR. An appeal is possible within one month.',
  ),
  document(
    'tax-2025',
    'eng',
    'Income tax return 2025',
    'Tax return for 2025 with attachments: salary, travel to work, donations, insurance.',
  ),
  document(
    'donation',
    'eng',
    'Receipt for a donation',
    'We received your donation of 100 EUR for the rescue at sea. This receipt may be given to the tax office.',
  ),
  document(
    'salary',
    'eng',
    'Payslip March 2026',
    'Salary for March: gross 4,100 EUR, net 2,640 EUR. Income tax and social insurance were deducted.',
  ),
  document(
    'job',
    'eng',
    'Employment contract',
    'Contract of employment as a software developer. Salary 49,200 EUR a year, thirty days of holiday, trial period six months.',
  ),
  document(
    'car-insurance',
    'eng',
    'Car insurance policy',
    'Policy of the motor insurance for the vehicle B-AB 1234. Liability and partial cover, premium 480 EUR a year.',
  ),
  document(
    'accident',
    'eng',
    'Report of an accident',
    'On 3 March a driver hit the parked car. Damage at the rear bumper. The insurance was informed, photographs are attached.',
  ),
  document(
    'repair',
    'eng',
    'Garage repair invoice',
    'Repair of the rear bumper, paint, two hours of work. Invoice total 890 EUR, paid by the insurer of the other driver.',
  ),
  document(
    'house-insurance',
    'eng',
    'Household insurance',
    'Insurance of household contents against fire, water and burglary. Sum insured 60,000 EUR.',
  ),
  document(
    'doctor',
    'eng',
    'Doctor’s letter',
    'Findings of the examination: blood pressure slightly raised, otherwise healthy. Next check in one year.',
  ),
  document(
    'vaccination',
    'eng',
    'Vaccination record',
    'Vaccinated against tetanus, measles and influenza. The next booster is due in 2031.',
  ),
  document(
    'minutes',
    'eng',
    'Minutes of the board meeting',
    'The board met on 12 January. The budget was approved. The annual report will be published in April.',
  ),
  document(
    'annual-report',
    'eng',
    'Annual report 2025',
    'Report of the board on the year 2025: members, finances, outlook. The auditors found no fault.',
  ),
  document('report-annual', 'eng', 'Notes', 'A report about plants. Some are annual, others live for years. To be continued.'),
  document('recipe', 'eng', 'Apple pie', 'Flour, butter, sugar, six apples. Bake for forty minutes. Best eaten warm with cream.'),
  document(
    'warranty',
    'eng',
    'Warranty of the washing machine',
    'Warranty for two years from the purchase. Serial number WM-2026-4711. Keep the receipt.',
  ),
  document(
    'manual',
    'eng',
    'Washing machine: operating instructions',
    'Before the first washing remove the bolts. Clean the filter monthly. Errors E10 to E42 are explained on page 31.',
  ),
  document(
    'miete',
    'deu',
    'Mieterhöhung',
    'Der Vermieter erhöht die Miete der Wohnung ab Juli um 45 Euro. Die Zustimmung ist bis Ende Mai zu erklären.',
  ),
  document(
    'kuendigung',
    'deu',
    'Kündigung des Telefonvertrags',
    'Hiermit kündige ich den Vertrag über den Telefonanschluss zum nächstmöglichen Termin. Bitte bestätigen Sie die Kündigung.',
  ),
  document('haeuser', 'deu', 'Gutachten', 'Gutachten über die Häuser am See: Dächer und Fenster sind in gutem Zustand, die Keller feucht.'),
  document(
    'rechnung',
    'deu',
    'Rechnung des Handwerkers',
    'Für die Arbeiten an Dach und Fenstern stellen wir 1.234,56 Euro in Rechnung. IBAN DE89 3704 0044 0532 0130 00.',
  ),
  document(
    'facture',
    'fra',
    'Facture d’électricité',
    'Votre facture de mars : 58,30 euros. Les paiements se font par prélèvement automatique.',
  ),
  document(
    'assurance',
    'fra',
    'Attestation d’assurance',
    'Nous attestons que le logement est assuré contre l’incendie et les dégâts des eaux pour l’année 2026.',
  ),
]

export const queries: readonly Query[] = [
  { q: 'telecom invoice', expected: { 'phone-bill-jan': 3, 'phone-bill-feb': 3 } },
  { q: 'telephone contract', expected: { 'phone-contract': 3 } },
  { q: 'invoice', expected: { 'phone-bill-jan': 3, 'phone-bill-feb': 3, repair: 3, 'power-bill': 1 } },
  { q: 'deposit', expected: { deposit: 3, lease: 2 } },
  { q: 'landlord notice', expected: { lease: 3, 'lease-garage': 3 } },
  { q: 'income tax 2024', expected: { 'tax-2024': 3 } },
  { q: 'income tax', expected: { 'tax-2024': 3, 'tax-2025': 3, salary: 1 } },
  { q: '"annual report"', expected: { 'annual-report': 3, minutes: 2 } },
  { q: 'annual report', expected: { 'annual-report': 3, minutes: 2, 'report-annual': 1 } },
  { q: 'insurance', expected: { 'car-insurance': 3, 'house-insurance': 3, accident: 2, repair: 1, 'tax-2025': 1, salary: 1 } },
  { q: 'rear bumper', expected: { repair: 3, accident: 3 } },
  { q: 'washing machine warranty', expected: { warranty: 3 } },
  { q: 'WM-2026-4711', expected: { warranty: 3 } },
  { q: 'vaccinations', expected: { vaccination: 3 } },
  { q: 'apartments', expected: { lease: 3, heating: 2 } },
  { q: 'garage -repair', expected: { 'lease-garage': 3 } },
  { q: 'emploiment contract', fuzzy: true, expected: { job: 3 } },
  { q: 'electricty', fuzzy: true, expected: { 'power-bill': 3, facture: 2 } },
  { q: 'haus', expected: { haeuser: 3 } },
  { q: 'kündigung telefon', expected: { kuendigung: 3 } },
  { q: 'DE89370400440532013000', expected: { rechnung: 3 } },
  { q: 'paiement facture', expected: { facture: 3 } },
  { q: 'title:lease', expected: { lease: 3, 'lease-garage': 3 } },
  { q: 'deposit OR donation', expected: { deposit: 3, donation: 3, lease: 2, 'tax-2025': 2 } },
]
