/** `dms sources sync` killed repeatedly, and what must hold afterwards. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bareEnvironment, executable, run } from './run.ts'

type Query = <Row>(text: string) => Promise<Row[]>

interface Given {
  /** of `dms` */
  env: Record<string, string>
  query: Query
  source: { id: string; name: string }
  /** the folder that the source reads */
  root: string
  points: number
}

/** Fills the folder, kills the sync at this many points, and lets it end. Returns all violations as text. */
export async function killSync({ env, query, source, root, points }: Given): Promise<string[]> {
  const wrong: string[] = []
  let [files, bytes, hits] = [0, 0, 0]
  const addFiles = async (count: number) => {
    for (const end = files + count; files < end; files++) {
      const text = `file ${files} `.repeat(1 + (files % 50))
      bytes += text.length
      await mkdir(join(root, String(files % 7)), { recursive: true })
      await writeFile(join(root, String(files % 7), `${files}.txt`), text)
    }
  }
  await addFiles(points * 120)
  const taken = async () =>
    (await query<{ taken: number }>(`select count(*)::int as taken from documents where source_id = '${source.id}'`))[0]?.taken ?? 0

  for (let point = 0; point < points; point++) {
    const before = await taken()
    // On a busy machine, the last kill may have come after the last file.
    if (before === files) await addFiles(120)
    const child = spawn(process.execPath, [executable, 'sources', 'sync', source.name], { env: bareEnvironment(env), stdio: 'ignore' })
    const gone = once(child, 'exit')
    // Somewhere between two transactions, and in the middle of one.
    while (child.exitCode === null && (await taken()) === before) await sleep(5)
    await sleep(Math.random() * 60)
    child.kill('SIGKILL')
    const [, signal] = await gone
    hits += Number(signal === 'SIGKILL')
  }
  if ((await taken()) === files) await addFiles(120)

  const before = await taken()
  const kept = await query<{ bytes: number }>(`select coalesce(sum(size), 0)::int as bytes from documents where source_id = '${source.id}'`)
  const last = await run(['sources', 'sync', source.name, '--json'], { env, timeout: 120_000 })
  if (last.code !== 0) wrong.push(`the last sync ended with ${last.code}: ${last.stderr}`)
  const [result] = (JSON.parse(last.stdout || '{}') as { sources?: { new: number; unchanged: number; bytes: number }[] }).sources ?? []
  if (hits === 0) wrong.push(`each of ${points} syncs ended before it was killed`)
  if (result?.new !== files - before || result.unchanged !== before)
    wrong.push(`resumed with ${before} of ${files}: ${JSON.stringify(result)}`)
  if (result?.bytes !== bytes - (kept[0]?.bytes ?? 0))
    wrong.push(`fetched ${result?.bytes} bytes, ${bytes - (kept[0]?.bytes ?? 0)} were left`)

  const twice = await query(`select source_path from documents where source_id = '${source.id}' group by 1 having count(*) > 1`)
  if (twice.length > 0) wrong.push(`${twice.length} files are there twice`)
  if ((await taken()) !== files) wrong.push(`${await taken()} documents of ${files} files`)
  const jobless = await query(`select d.id from documents d where d.status = 'pending'
    and not exists (select from jobs j where j.document_id = d.id and j.status in ('pending', 'processing'))`)
  if (jobless.length > 0) wrong.push(`${jobless.length} documents wait for nobody`)
  const open = await query(`select id from source_syncs where state = 'running'`)
  if (open.length > 0) wrong.push(`${open.length} runs never ended`)
  return wrong
}
