/**
 * How fast and how well are scanned pages read? Ours beside the plain tesseract program and ocrmypdf, on the same pages, in turns.
 *
 *   node bench/ocr.ts [--pages 12] [--rounds 3]
 *
 * For all comparisons install tesseract-ocr and ocrmypdf (Debian's names); what is missing is left out. Pages are dense A4, made here.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { distance } from 'fastest-levenshtein'
import { findOcr } from '../src/ocr/languages.ts'
import { answers, cores, layDown, ocrmypdf, ours, type Program, plainTesseract, type Reading, type Stack } from './ocr-programs.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'
import { makeScans, variants } from './scans.ts'

const { values } = parseArgs({ options: { pages: { type: 'string', default: '12' }, rounds: { type: 'string', default: '3' } } })
const [pages, rounds] = [Number(values.pages), Number(values.rounds)]
const folder = await mkdtemp(join(tmpdir(), 'bench-ocr-'))
try {
  await bench()
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function bench(): Promise<void> {
  const tools = { tesseract: await answers('tesseract'), ocrmypdf: await answers('ocrmypdf') }
  console.log(`${cores} cores, ${cpus()[0]?.model.trim()}, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}`)
  for (const [name, version] of Object.entries(tools)) console.log(`${name}: ${version ?? 'not installed, left out'}`)
  const programs = await findPrograms(tools)
  await showRates(programs)
  await showErrors(programs)
}

type Programs = Partial<Record<string, Program>>

/** `fast`: models of Debian; `best_int`: models of npm */
async function findPrograms({
  tesseract,
  ocrmypdf: hasOcrmypdf,
}: {
  tesseract: string | null
  ocrmypdf: string | null
}): Promise<Programs> {
  const npm = dirname(fileURLToPath(import.meta.resolve('@tesseract.js-data/eng/4.0.0_best_int/eng.traineddata.gz')))
  await writeFile(join(folder, 'eng.traineddata'), gunzipSync(await readFile(join(npm, 'eng.traineddata.gz'))))
  const engine = async (name: 'tesseract-js' | 'tesseract-native', dataPath: string) =>
    ours(await findOcr({ engine: name, dataPath }), folder)
  return {
    ...(tesseract && {
      'plain, fast': plainTesseract(null),
      'plain, best_int': plainTesseract(folder),
      'native, fast': await engine('tesseract-native', ''),
      'native, best_int': await engine('tesseract-native', npm),
      'tesseract.js, fast': await engine('tesseract-js', ''),
    }),
    'tesseract.js, best_int': await engine('tesseract-js', npm),
    ...(hasOcrmypdf && { 'ocrmypdf --jobs 2': ocrmypdf }),
  }
}

/** Runs the programs in turn, `rounds` times: other load of the machine then affects all equally. */
async function showRates(programs: Programs): Promise<void> {
  const stacks: Stack[] = []
  for (const dpi of [300, 200]) stacks.push(await layDown(await makeScans(pages, 'clean', dpi), `clean-${dpi}`, folder))
  const rates: Rates = new Map()
  for (let round = 0; round < rounds; round++) {
    for (const stack of stacks) {
      for (const [name, program] of Object.entries(programs)) {
        const key = `${name}, ${stack.dpi}`
        rates.set(key, [...(rates.get(key) ?? []), await program!(stack)])
      }
    }
  }
  const formatted = (name: string, dpi: number) => {
    const readings = rates.get(`${name}, ${dpi}`) ?? []
    const perCpu = median(readings.map(({ pagesPerCpuMinute }) => pagesPerCpuMinute))
    return `${readings.map(({ pagesPerMinute }) => pagesPerMinute.toFixed(1)).join(' ')} (${perCpu.toFixed(1)})`
  }
  const rows = Object.keys(programs).map((name) => [name, { '300 dpi scans': formatted(name, 300), '200 dpi scans': formatted(name, 200) }])
  console.log('\nPages a minute, clean scans, each round (and for each minute of one core, median)')
  console.table(Object.fromEntries(rows))
  reportRates(rates)
  showRatios(rates)
}

type Rates = Map<string, Reading[]>

function reportRates(rates: Rates): void {
  for (const dpi of [300, 200]) {
    const rate = (name: string, of: (reading: Reading) => number) => median((rates.get(`${name}, ${dpi}`) ?? []).map(of))
    const peers = (names: Readonly<Record<string, string>>, of: (reading: Reading) => number) =>
      Object.fromEntries(Object.entries(names).flatMap(([name, shown]) => (rates.has(`${name}, ${dpi}`) ? [[shown, rate(name, of)]] : [])))
    for (const [models, engine] of ['fast', 'best_int'].flatMap((models) =>
      ['native', 'tesseract.js'].map((engine) => [models, engine] as const),
    )) {
      const name = `${engine}, ${models}`
      if (!rates.has(`${name}, ${dpi}`)) continue
      const beside = { [`plain, ${models}`]: 'tesseract', 'ocrmypdf --jobs 2': 'ocrmypdf' }
      const byClock = ({ pagesPerMinute }: Reading) => pagesPerMinute
      const byCpu = ({ pagesPerCpuMinute }: Reading) => pagesPerCpuMinute
      const measure = `${name}, ${dpi} dpi`
      report({ measure, unit: 'pages/min', value: rate(name, byClock), peers: peers(beside, byClock), better: 'higher' })
      report({ measure, unit: 'pages/CPU min', value: rate(name, byCpu), peers: peers(beside, byCpu), better: 'higher' })
    }
  }
}

/** Returns the medians of the ratios in each round. */
function showRatios(rates: Rates): void {
  const rows: [title: string, cells: { 'by the clock': number; 'by processor time': number; expected: number }][] = []
  const compare = (title: string, expected: number, one: string, other: string) => {
    const [ones, others] = [rates.get(one), rates.get(other)]
    if (!ones || !others) return
    const ratio = (rate: (reading: Reading) => number) =>
      rounded(median(ones.map((reading, round) => rate(reading) / rate(others[round]!))))
    const cells = {
      'by the clock': ratio((reading) => reading.pagesPerMinute),
      'by processor time': ratio((reading) => reading.pagesPerCpuMinute),
    }
    rows.push([title, { ...cells, expected }])
  }
  compare('native : plain tesseract, both at 200 dpi, fast', 0.95, 'native, fast, 200', 'plain, fast, 200')
  compare('native : plain tesseract, both at 200 dpi, best_int', 0.95, 'native, best_int, 200', 'plain, best_int, 200')
  compare('native as it comes : plain tesseract, 300 dpi scans, fast', 0.95, 'native, fast, 300', 'plain, fast, 300')
  compare('tesseract.js : native, fast', 0.75, 'tesseract.js, fast, 300', 'native, fast, 300')
  compare('tesseract.js : native, best_int', 0.75, 'tesseract.js, best_int, 300', 'native, best_int, 300')
  compare('tesseract.js best_int : ocrmypdf --jobs 2', 1, 'tesseract.js, best_int, 300', 'ocrmypdf --jobs 2, 300')
  compare('tesseract.js fast : ocrmypdf --jobs 2', 2.5, 'tesseract.js, fast, 300', 'ocrmypdf --jobs 2, 300')
  console.log('\nRatios, median of the rounds')
  console.table(Object.fromEntries(rows))
}

/** Returns character errors in percent, ignoring white space. Plain tesseract gets the unprepared pages. */
async function showErrors(programs: Programs): Promise<void> {
  const rows: Record<string, Record<string, number>> = {}
  const count = Math.min(pages, 4)
  const stacks: Stack[] = []
  for (const variant of variants) stacks.push(await layDown(await makeScans(count, variant, 300), variant, folder))
  for (const [name, program] of Object.entries(programs).filter(([name]) => !name.startsWith('ocrmypdf'))) {
    rows[name] = {}
    for (const [index, stack] of stacks.entries()) rows[name][variants[index]!] = rounded(errors(stack, await program!(stack)))
  }
  console.log('\nCharacter errors in percent')
  console.table(rows)
}

function errors({ truths }: Stack, { texts }: Reading): number {
  const plain = (text: string) => text.replace(/\s+/g, ' ').trim()
  const wrong = truths.reduce((sum, truth, index) => sum + distance(truth, plain(texts[index] ?? '')), 0)
  return (100 * wrong) / truths.reduce((sum, truth) => sum + truth.length, 0)
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
