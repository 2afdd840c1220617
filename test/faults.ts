/**
 * Injects faults into a real server, audits the remaining data independently, and prints the result of each fault. npm run test:faults [-- --short]
 * [--only F17]… [--json FILE] [--markdown FILE] --short: fewer operations, for seven minutes on two cores. --json, --markdown: writes the table to a file too.
 * Skips a fault that needs a missing program or root, and prints the reason. Exits with 1 if acknowledged data is lost, incomplete or duplicated, or
 * if an answer is wrong.
 */
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { faults } from './faults/all.ts'
import { listUncommitted } from './faults/audit.ts'
import type { Fault, FaultResult } from './faults/fault.ts'
import { type Installation, openInstallation } from './faults/installation.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    short: { type: 'boolean', default: false },
    json: { type: 'string' },
    markdown: { type: 'string' },
  },
})

/** Number of faults that run concurrently, each worker with its own installation. A fault mostly waits. */
const concurrency = values.short ? 4 : 2

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const head = ['fault', 'injected', 'acknowledged', 'lost', 'half', 'duplicate', 'unavailable s p50/max', 'manual steps']
const rows = new Map<string, string[]>()
const results = new Map<string, FaultResult & { seconds: number }>()
const problems: string[] = []
const skipped: string[] = []
const installations = new Set<Installation>()

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    show()
    void removeAll().finally(() => process.exit(130))
  })
const selected = faults.filter(({ id }) => !values.only || values.only.includes(id))
// The longest faults start first.
const shared = selected
  .filter(({ isExclusive: isAlone }) => !isAlone)
  .toSorted((a, b) => Number(b.isLong ?? false) - Number(a.isLong ?? false))
const exclusive = selected.filter(({ isExclusive: isAlone }) => isAlone)
try {
  await Promise.all(Array.from({ length: Math.min(concurrency, shared.length) }, () => runFaults(shared)))
  if (exclusive.length > 0) await runFaults(exclusive)
} finally {
  await removeAll()
}
show()
if (values.markdown !== undefined) await writeFile(values.markdown, markdown())
if (values.json !== undefined)
  await writeFile(
    values.json,
    `${JSON.stringify(
      [...results].map(([id, told]) => ({ id, ...told })),
      null,
      2,
    )}\n`,
  )
for (const reason of skipped) print(`skipped ${reason}`)
// Repeats the problems at the end, where readers of a long log look.
for (const problem of problems) print(`  ✗ ${problem}`)
print(problems.length === 0 ? 'all as it should be' : `${problems.length} problems`)
// A fault that broke off may leave servers that listen: without an exit they keep this process alive.
process.exit(problems.length === 0 ? 0 : 1)

function show(): void {
  const table = new Table({
    head,
    style: { head: [], border: [] },
  })
  for (const { id } of selected) if (rows.has(id)) table.push(rows.get(id) ?? [])
  print(table.toString())
}

function markdown(): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  const lines = selected.flatMap(({ id }) => {
    const [name = '', ...rest] = rows.get(id) ?? []
    return rows.has(id) ? line([name.replace(id, `\`${id}\``), ...rest]) : []
  })
  return [line(head), line(head.map(() => '---')), ...lines].join('')
}

async function openTracked(): Promise<Installation> {
  const installation = await openInstallation()
  installations.add(installation)
  return installation
}

async function removeAll(): Promise<void> {
  for (const installation of installations) await installation.remove()
}

function addProblem(problem: string): void {
  problems.push(problem)
  print(`  ✗ ${problem}`)
}

async function runFaults(waiting: Fault[]): Promise<void> {
  let installation = await openTracked()
  for (let fault = waiting.shift(); fault; fault = waiting.shift())
    if (!(await runFault(fault, installation))) {
      await installation.remove()
      installation = await openTracked()
    }
  await checkUncommitted(installation)
}

/** Checks after all faults that no uncommitted file remains. */
async function checkUncommitted(installation: Installation): Promise<void> {
  const server = await installation.start()
  const remaining = await listUncommitted(installation, 120_000)
  if (remaining.length > 0) addProblem(`I3 ${remaining.length} files remain that nobody needs: ${remaining.slice(0, 3).join(', ')}`)
  const code = await server.stop()
  if (code !== 0) addProblem(`the last server ended with ${code}`)
}

/** Injects one fault. Returns false if it was aborted; the state of the installation is unknown then. */
async function runFault(fault: Fault, installation: Installation): Promise<boolean> {
  const reason = fault.skipReason?.() ?? null
  if (reason !== null) {
    skipped.push(`${fault.id} ${fault.name}: ${reason}`)
    return true
  }
  const startedAt = performance.now()
  try {
    const result = await fault.run({ installation: installation, isShort: values.short, openInstallation: openTracked })
    rows.set(fault.id, rowOf(fault, result))
    results.set(fault.id, { ...result, seconds: Number(seconds(startedAt)) })
    print(`${fault.id} ${fault.name}: ${[`${seconds(startedAt)} s`, ...result.notes].join('; ')}`)
    for (const problem of result.problems) addProblem(`${fault.id} ${problem}`)
    return true
  } catch (error) {
    addProblem(`${fault.id} broke off: ${(error as Error).stack}`)
    return false
  }
}

function rowOf({ id, name }: Fault, { injected, acknowledged, lost, half, duplicate, outages, manual }: FaultResult): string[] {
  const sorted = outages.toSorted((a, b) => a - b)
  const displayed = (milliseconds = 0) => (milliseconds / 1000).toFixed(1)
  const unavailable = sorted.length === 0 ? '0' : `${displayed(sorted[sorted.length >> 1])} / ${displayed(sorted.at(-1))}`
  return [`${id} ${name}`, injected, ...[acknowledged, lost, half, duplicate].map(String), unavailable, String(manual)]
}

function seconds(startedAt: number): string {
  return ((performance.now() - startedAt) / 1000).toFixed(0)
}
