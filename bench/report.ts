/**
 * Runs the bench programs one after the other and writes the report: docs/benchmarks.json, the results in docs/benchmarks.md, and plots.
 *
 *   npm run bench -- [--short] [--only api,search] [--to FOLDER] [--render]
 *
 * --short    small sizes, about 10 minutes; without it, several hours
 * --only     these programs; the others keep their results
 * --to       folder of the report (default: docs)
 * --render   runs nothing; writes the page and the plots from the results
 *
 * Stop other work on the machine first. A program that fails is named, and its last results stay.
 */

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findProgram } from '../src/config/find-program.ts'
import type { Figure } from './report/figure.ts'
import { type Results, type Run, replaceGenerated, resultsPage } from './report/page.ts'
import { plot } from './report/plot.ts'
import { type Program, programs } from './report/programs.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    to: { type: 'string', default: fileURLToPath(new URL('../docs', import.meta.url)) },
    render: { type: 'boolean', default: false },
  },
})
const print = (line: string): void => void process.stdout.write(`${line}\n`)

const resultsFile = join(values.to, 'benchmarks.json')
const results: Results = JSON.parse(await readFile(resultsFile, 'utf8').catch(() => '{}'))
const failed: string[] = []
if (!values.render) for (const program of chosenPrograms()) await runProgram(program)
await writeReport()
if (failed.length > 0) {
  print(`failed: ${failed.join(', ')}`)
  process.exitCode = 1
}

function chosenPrograms(): readonly Program[] {
  const names = values.only.split(',').filter(Boolean)
  const unknown = names.filter((name) => !programs.some((program) => program.name === name))
  if (unknown.length > 0) fail(`--only: ${unknown.join(', ')} is no program; there are ${programs.map(({ name }) => name).join(', ')}`)
  return names.length === 0 ? programs : programs.filter(({ name }) => names.includes(name))
}

async function runProgram(program: Program): Promise<void> {
  const { name, requires = [], packages = [] } = program
  const missing = requires.filter((command) => !findProgram(command))
  if (missing.length > 0) return print(`${name}: left out, ${missing.join(', ')} is missing: apt-get install ${packages.join(' ')}`)
  const options = values.short ? program.short : program.whole
  print(`\n${name} ${options.join(' ')}`)
  const load = loadavg()[0] ?? 0
  const start = performance.now()
  const figures = await figuresOf(name, options)
  if (figures === null) return void failed.push(name)
  const seconds = Math.round((performance.now() - start) / 1000)
  results[name] = {
    options: options.join(' '),
    measuredAt: new Date().toISOString().slice(0, 10),
    commit: commit(),
    machine: machine(),
    load,
    seconds,
    figures,
  }
  // Saved after each program: a run of hours may be stopped.
  await writeReport()
}

/** Runs a program. Returns its figures; null if it failed. */
async function figuresOf(name: string, options: readonly string[]): Promise<Figure[] | null> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-bench-report-'))
  try {
    const file = join(folder, 'figures.jsonl')
    await writeFile(file, '')
    const program = fileURLToPath(new URL(`./${name}.ts`, import.meta.url))
    const child = spawn(process.execPath, [program, ...options], { env: { ...process.env, BENCH_FIGURES: file }, stdio: 'inherit' })
    const [code] = await once(child, 'exit')
    const lines = (await readFile(file, 'utf8')).split('\n').filter(Boolean)
    return code === 0 ? lines.map((line) => JSON.parse(line) as Figure) : null
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function writeReport(): Promise<void> {
  const page = join(values.to, 'benchmarks.md')
  const plots = join(values.to, 'benchmarks')
  await mkdir(plots, { recursive: true })
  await writeFile(resultsFile, `${JSON.stringify(results, null, 2)}\n`)
  for (const [name, run] of Object.entries(results)) await writeFile(join(plots, `${name}.svg`), plot(titleOf(name), (run as Run).figures))
  const before = await readFile(page, 'utf8').catch(() => '')
  await writeFile(page, replaceGenerated(before, 'npm run bench', resultsPage(results)))
}

function titleOf(name: string): string {
  return programs.find((program) => program.name === name)?.title ?? name
}

function machine(): string {
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  return `${availableParallelism()} cores, ${cpus()[0]?.model.trim()}, ${gibibytes} GiB, Node ${process.versions.node}`
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return 'unknown'
  }
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
