/**
 * Injects faults into a real server, lets an auditor of its own look at what is left, and prints what came of each.
 *
 *   npm run test:faults [-- --short] [--only F17]… [--json FILE] [--markdown FILE]
 *
 * --short: fewer of each, within three minutes. --json, --markdown: writes the table to a file too. A fault that this machine cannot
 * inject (a program is missing, only root may) is skipped and says so.
 * Ends with 1 when something acknowledged was lost, something is there by half or twice, or an answer was not what it must be.
 */
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { faults } from './faults/all.ts'
import { unsettled } from './faults/audit.ts'
import type { Fault, Told } from './faults/fault.ts'
import { openPlace, type Place } from './faults/place.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    short: { type: 'boolean', default: false },
    json: { type: 'string' },
    markdown: { type: 'string' },
  },
})

/** faults that run at once, each lane with its own place: a fault mostly waits */
const lanes = values.short ? 4 : 2

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const head = ['fault', 'injected', 'acknowledged', 'lost', 'half', 'duplicate', 'unavailable s p50/max', 'manual steps']
const rows = new Map<string, string[]>()
const results = new Map<string, Told & { seconds: number }>()
const problems: string[] = []
const skipped: string[] = []
const places = new Set<Place>()

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    show()
    void removeAll().finally(() => process.exit(130))
  })
const chosen = faults.filter(({ id }) => !values.only || values.only.includes(id))
// The longest begin first.
const shared = chosen.filter(({ isAlone }) => !isAlone).toSorted((a, b) => Number(b.isLong ?? false) - Number(a.isLong ?? false))
const alone = chosen.filter(({ isAlone }) => isAlone)
try {
  await Promise.all(Array.from({ length: Math.min(lanes, shared.length) }, () => lane(shared)))
  if (alone.length > 0) await lane(alone)
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
for (const reason of skipped) say(`skipped ${reason}`)
// Listed once more at the end: whoever reads a long log reads its last lines.
for (const problem of problems) say(`  ✗ ${problem}`)
say(problems.length === 0 ? 'all as it should be' : `${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1

function show(): void {
  const table = new Table({
    head,
    style: { head: [], border: [] },
  })
  for (const { id } of chosen) if (rows.has(id)) table.push(rows.get(id) ?? [])
  say(table.toString())
}

function markdown(): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  const lines = chosen.flatMap(({ id }) => {
    const [name = '', ...rest] = rows.get(id) ?? []
    return rows.has(id) ? line([name.replace(id, `\`${id}\``), ...rest]) : []
  })
  return [line(head), line(head.map(() => '---')), ...lines].join('')
}

async function open(): Promise<Place> {
  const place = await openPlace()
  places.add(place)
  return place
}

async function removeAll(): Promise<void> {
  for (const place of places) await place.remove()
}

function wrong(problem: string): void {
  problems.push(problem)
  say(`  ✗ ${problem}`)
}

async function lane(waiting: Fault[]): Promise<void> {
  let place = await open()
  for (let fault = waiting.shift(); fault; fault = waiting.shift())
    if (!(await tryOne(fault, place))) {
      await place.remove()
      place = await open()
    }
  await settle(place)
}

/** After all faults: no uncommitted file may be left. */
async function settle(place: Place): Promise<void> {
  const server = await place.start()
  const left = await unsettled(place, 30_000)
  if (left.length > 0) wrong(`I3 ${left.length} files remain that nobody needs: ${left.slice(0, 3).join(', ')}`)
  const code = await server.stop()
  if (code !== 0) wrong(`the last server ended with ${code}`)
}

/** false if the fault was aborted, after which the state of the place is unknown */
async function tryOne(fault: Fault, place: Place): Promise<boolean> {
  const reason = fault.missing?.() ?? null
  if (reason !== null) {
    skipped.push(`${fault.id} ${fault.name}: ${reason}`)
    return true
  }
  const begun = performance.now()
  try {
    const told = await fault.run({ place, isShort: values.short, openPlace: open })
    rows.set(fault.id, rowOf(fault, told))
    results.set(fault.id, { ...told, seconds: Number(seconds(begun)) })
    say(`${fault.id} ${fault.name}: ${[`${seconds(begun)} s`, ...told.notes].join('; ')}`)
    for (const problem of told.problems) wrong(`${fault.id} ${problem}`)
    return true
  } catch (error) {
    wrong(`${fault.id} broke off: ${(error as Error).stack}`)
    return false
  }
}

function rowOf({ id, name }: Fault, { injected, acknowledged, lost, half, duplicate, outages, manual }: Told): string[] {
  const sorted = outages.toSorted((a, b) => a - b)
  const shown = (milliseconds = 0) => (milliseconds / 1000).toFixed(1)
  const unavailable = sorted.length === 0 ? '0' : `${shown(sorted[sorted.length >> 1])} / ${shown(sorted.at(-1))}`
  return [`${id} ${name}`, injected, ...[acknowledged, lost, half, duplicate].map(String), unavailable, String(manual)]
}

function seconds(begun: number): string {
  return ((performance.now() - begun) / 1000).toFixed(0)
}
