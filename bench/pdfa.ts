/**
 * How fast do scans become searchable PDF/A files, OCR included? Ours beside ocrmypdf, on the same pages, in turns.
 *
 *   node bench/pdfa.ts [--pages 8] [--rounds 3]
 *
 * For the comparison install tesseract-ocr and ocrmypdf (Debian's names); what is missing is left out. Pages are dense A4, made here.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findOcr } from '../src/ocr/languages.ts'
import { answers, cores, layDown, ocrmypdf, ours, type Program, type Reading } from './ocr-programs.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'
import { makeScans } from './scans.ts'

const { values } = parseArgs({ options: { pages: { type: 'string', default: '8' }, rounds: { type: 'string', default: '3' } } })
const peer = 'ocrmypdf --jobs 2'
const targetRatio = 3
/** wanted share of the PDF/A in the time of its OCR */
const targetShare = 0.05
const folder = await mkdtemp(join(tmpdir(), 'bench-pdfa-'))
try {
  await bench()
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function bench(): Promise<void> {
  const tools = { tesseract: await answers('tesseract'), ocrmypdf: await answers('ocrmypdf') }
  console.log(`${cores} cores, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}`)
  for (const [name, version] of Object.entries(tools)) console.log(`${name}: ${version ?? 'not installed, left out'}`)
  const sizes = new Map<string, number>()
  const programs = await findPrograms(tools, sizes)
  const ocrOnly = await findPrograms({ ...tools, ocrmypdf: null }, null)
  const stack = await layDown(await makeScans(Number(values.pages), 'clean', 300), 'clean', folder)
  const { size } = await stat(stack.pdf)
  const readings = new Map<string, Reading[]>()
  const shares = new Map<string, number[]>()
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, program] of Object.entries(programs)) {
      const reading = await program(stack)
      readings.set(name, [...(readings.get(name) ?? []), reading])
      const alone = await ocrOnly[name]?.(stack)
      if (alone) shares.set(name, [...(shares.get(name) ?? []), alone.pagesPerCpuMinute / reading.pagesPerCpuMinute - 1])
      if (program === ocrmypdf) sizes.set(name, (await stat(`${stack.pdf}.out`)).size)
    }
  }
  const rows = [...readings].map(([name, all]) => [
    name,
    { ...rowOf(name, all, readings.get(peer), (sizes.get(name) ?? Number.NaN) / size), 'adds to OCR, CPU': shareOf(shares.get(name)) },
  ])
  console.log(`\nScans to PDF/A, pages a minute; times ocrmypdf (wanted: ${targetRatio}) as the median of the rounds`)
  console.table(Object.fromEntries(rows))
  console.log(`PDF/A should add at most ${targetShare * 100} % to the processor time of OCR alone, which takes turns with it`)
}

function shareOf(shares: readonly number[] | undefined): string {
  return shares ? `${(median(shares) * 100).toFixed(1)} %` : '-'
}

/** Returns the programs by name. Stores the size of each PDF/A in `sizes`; null: OCR alone, without PDF/A. */
async function findPrograms(
  { tesseract, ocrmypdf: hasOcrmypdf }: { tesseract: string | null; ocrmypdf: string | null },
  sizes: Map<string, number> | null,
): Promise<Record<string, Program>> {
  const npm = dirname(fileURLToPath(import.meta.resolve('@tesseract.js-data/eng/4.0.0_best_int/eng.traineddata.gz')))
  const dms = async (name: string, engine: 'tesseract-js' | 'tesseract-native', dataPath: string) => [
    name,
    ours(await findOcr({ engine, dataPath }), folder, sizes ? (bytes) => sizes.set(name, bytes.length) : undefined),
  ]
  const ownPrograms = [
    ...(tesseract ? [await dms('native, fast', 'tesseract-native', ''), await dms('tesseract.js, fast', 'tesseract-js', '')] : []),
    await dms('tesseract.js, best_int', 'tesseract-js', npm),
  ]
  return { ...Object.fromEntries(ownPrograms), ...(hasOcrmypdf && { [peer]: ocrmypdf }) }
}

function rowOf(name: string, all: readonly Reading[], peers: readonly Reading[] | undefined, sizeRatio: number) {
  const [byClock, byCpu] = [all.map(({ pagesPerMinute }) => pagesPerMinute), all.map(({ pagesPerCpuMinute }) => pagesPerCpuMinute)]
  const [clockPeers, cpuPeers] = [
    peers?.map(({ pagesPerMinute }) => pagesPerMinute),
    peers?.map(({ pagesPerCpuMinute }) => pagesPerCpuMinute),
  ]
  if (name !== peer) {
    const beside = (figures: readonly number[] | undefined) => (figures ? { peers: { [peer]: median(figures) } } : {})
    report({ measure: name, unit: 'pages/min', value: median(byClock), ...beside(clockPeers), better: 'higher' })
    report({ measure: name, unit: 'pages/CPU min', value: median(byCpu), ...beside(cpuPeers), better: 'higher' })
  }
  const times = (figures: readonly number[], others: readonly number[] | undefined) =>
    others ? rounded(median(figures.map((figure, round) => figure / others[round]!))) : '-'
  return {
    'pages/min': rounded(median(byClock)),
    'pages/CPU min': rounded(median(byCpu)),
    'times, clock': times(byClock, clockPeers),
    'times, CPU': times(byCpu, cpuPeers),
    'size : input': rounded(sizeRatio),
  }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}
