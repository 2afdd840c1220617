/** Runs the shell lines of README and docs/ as they stand, in bash, beside a server. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bareEnvironment, executable, hasProgram } from '../support/processes/run.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const names = ['README.md', ...(await readdir(join(root, 'docs'))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)]
const hasPrograms = ['bash', 'curl', 'jq'].every(hasProgram)
if (!hasPrograms) process.stderr.write('skipped: without bash, curl and jq the lines of the documentation cannot run\n')

/** Returns the lines of the fenced blocks of a page, without prompts, comments and the fields of cron. */
async function shellLines(name: string): Promise<string[]> {
  const text = await readFile(join(root, name), 'utf8')
  return [...text.matchAll(/^```(sh|console|cron|)\n([\s\S]*?)^```$/gm)].flatMap(([, kind = '', block = '']) => {
    const isScreen = kind === '' || kind === 'console'
    const lines = block.replaceAll('\\\n', ' ').split('\n')
    return lines
      .filter((line) => (isScreen ? line.startsWith('$ ') : line.trim() !== '' && !line.startsWith('#')))
      .map((line) => (isScreen ? line.slice(2) : line.replace(/^(?:[\d*/]+ +){5}\w+ +/, '').replaceAll('\\%', '%')))
  })
}

/** Lines that install or stop programs, need another machine or a terminal, or have a test of their own for the command. */
const isLeftOut =
  /^(npm|apt|systemctl|useradd|userdel|install|cp|ln|rm|node|cat|sudo|openssl|SHELL|PATH|MAILTO|DMS_NO_INPUT)\b|example\.org|hc-ping|amazonaws|ssh |dms (serve|restore|backup|check|worker|events|context|logout|whoami|api|healthcheck|docs|sources|users import|--context|--print-curl)|dms config init|huge\.tif|<\(/

let folder: string
let env: Record<string, string>
let server: ReturnType<typeof spawn>
let host: string

beforeAll(async () => {
  if (!hasPrograms) return
  folder = await mkdtemp(join(tmpdir(), 'dms-shell-'))
  await chmod(folder, 0o711)
  for (const name of ['bin', 'work', 'srv', 'in', 'usb']) await mkdir(join(folder, name))
  const programs = { dms: `exec '${process.execPath}' '${executable}' "$@"`, npx: 'exec "$@"' }
  for (const [name, line] of Object.entries(programs)) await writeFile(join(folder, 'bin', name), `#!/bin/sh\n${line}\n`, { mode: 0o755 })
  const files = {
    'letter.pdf': 'Harbour fees for 2026. Annual report.',
    'scan.png': 'A lease, telecom',
    'notes.txt': 'Call Ms Lind',
    'contract.pdf': 'c',
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, 'work', name), text)
  await writeFile(join(folder, 'srv', 'invoice.txt'), 'invoice')
  const bare = bareEnvironment({ DMS_DATA_DIR: join(folder, 'data'), HOME: folder, DMS_WORKER_CONCURRENCY: '1' })
  const [, password = ''] = /"password":"([^"]+)"/.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? []
  env = { ...bare, PATH: `${join(folder, 'bin')}:${bare.PATH}` }
  server = spawn(process.execPath, [executable, 'serve'], {
    env: { ...env, DMS_SERVER_PORT: '0', DMS_ADMIN_PASSWORD: password },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  for await (const chunk of server.stderr?.iterator({ destroyOnReturn: false }) ?? []) {
    said += chunk
    const listening = /listening on http:\/\/(\S+)/.exec(said)
    if (listening) host = listening[1] as string
    if (listening) break
  }
  if (!host) throw new Error(said)
  server.stderr?.resume()
}, 120_000)

afterAll(async () => {
  if (!hasPrograms) return
  server.kill()
  if (server.exitCode === null) await once(server, 'exit')
  await rm(folder, { recursive: true, force: true })
})

/** Runs lines in one shell, in the folder of the files. */
function runLines(lines: readonly string[], more: Record<string, string> = {}): Promise<{ code: number; stdout: string; stderr: string }> {
  const script = lines
    .join('\n')
    .replaceAll('localhost:8080', host)
    .replaceAll('/srv/scans', join(folder, 'srv'))
    .replaceAll('./in', join(folder, 'in'))
    .replaceAll('/mnt/usb', join(folder, 'usb'))
  const options = { env: { ...env, ...more }, cwd: join(folder, 'work'), timeout: 120_000 }
  return new Promise((resolve) => {
    const child = execFile('bash', ['--norc', '-euo', 'pipefail', '-c', script], options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
    })
    child.stdin?.end()
  })
}

test.skipIf(!hasPrograms)('bash can parse every line', async () => {
  const wrong: string[] = []
  for (const name of names)
    for (const line of await shellLines(name)) {
      const parse = spawn('bash', ['-nc', line], { stdio: 'ignore' })
      const [code] = await once(parse, 'exit')
      if (code !== 0) wrong.push(`${name}: ${line}`)
    }
  expect(wrong).toEqual([])
})

test.skipIf(!hasPrograms)(
  'README.md: the first upload is found, and the requests over HTTP work',
  async () => {
    const lines = (await shellLines('README.md')).filter((line) => /^(npx dms (documents|search)|TOKEN=|curl)/.test(line))
    expect(lines.length).toBe(6)
    const { code, stdout, stderr } = await runLines(lines)
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('error') })
    expect(stdout).toContain('Harbour fees for 2026')
    expect(stdout).toContain('"ocr_queued": true')
    expect(stdout).toContain('<mark>')
  },
  120_000,
)

test.skipIf(!hasPrograms)('commands in sentences that make tokens run on the server', async () => {
  const pages = await Promise.all(names.map((name) => readFile(join(root, name), 'utf8')))
  const lines = pages.flatMap((text) => [...text.matchAll(/`(dms tokens create [a-z][^`]+)`/g)].map(([, line = '']) => line))
  expect(lines.length).toBeGreaterThan(0)
  const user = JSON.stringify([{ username: 'svc-scan', email: 'svc-scan@example.org' }])
  const { code, stdout } = await runLines([`echo '${user}' | dms users import - --format json -q`, ...lines])
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\S/) })
})

test.skipIf(!hasPrograms)(
  'lines that need nothing but a server and its files exit with 0',
  async () => {
    const login = (await shellLines('README.md')).find((line) => line.startsWith('TOKEN=')) ?? ''
    const setUp = [login, 'echo "$TOKEN"', 'dms labels create inbox -q', 'dms labels create telecom -q', 'dms labels create q4 -q']
    const prepared = await runLines([...setUp, 'dms documents upload notes.txt --wait -q', 'dms documents list -o id'])
    expect(prepared).toMatchObject({ code: 0 })
    const [TOKEN = '', ID = ''] = prepared.stdout.trim().split('\n')
    const wrong: string[] = []
    let count = 0
    for (const name of names)
      for (const line of await shellLines(name)) {
        if (isLeftOut.test(line) || /^npx|^TOKEN=/.test(line)) continue
        count++
        const { code, stderr } = await runLines([line], { TOKEN, ID, ...(line.includes('DMS_URL') ? { DMS_URL: `http://${host}` } : {}) })
        if (code !== 0) wrong.push(`${name}: ${line}\n  exit ${code}: ${stderr}`)
      }
    expect(wrong).toEqual([])
    expect(count).toBeGreaterThan(20)
  },
  300_000,
)
