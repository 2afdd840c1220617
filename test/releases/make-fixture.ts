/** npm run release:fixture: writes a backup of a small installation of this version, its description and its schema to test/fixtures/releases. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import sharp from 'sharp'
import { type Client, remoteClient } from '../../src/client/remote.ts'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { openLog } from '../../src/log/log.ts'
import { pageImage, textPdf } from '../support/data/page-image.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'
import { type Served, startServed } from '../support/servers/served.ts'
import { describeInstallation } from './describe-installation.ts'
import { listSchema } from './schema-lines.ts'

const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
const folder = fileURLToPath(new URL(`../fixtures/releases/${version}/`, import.meta.url))
const password = 'correct horse battery'

const files = await makeFiles()
// Part of the fixture: the path of this machine's temporary folder must not be.
const sourceFolder = '/tmp/dms-fixture'
await mkdir(sourceFolder, { recursive: true })
await writeFile(join(sourceFolder, 'invoice.txt'), 'Invoice 4711 from the source')
const served = await startServed({ env: { DMS_SOURCES_LOCAL_ROOTS: sourceFolder, DMS_WORKER_SCHEDULE_SOURCES: 'false' } })
try {
  const person = await fill(served)
  const description = await describeInstallation(served.client, person)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const env = bareEnvironment({ DMS_DATA_DIR: served.dataDir })
  await promisify(execFile)(process.execPath, [executable, 'backup', 'create', '--to', join(folder, 'backup.tar')], { env })
  await writeFile(join(folder, 'contents.json'), `${JSON.stringify(description, null, 1)}\n`)
  await writeFile(join(folder, 'schema.txt'), `${(await readSchema(served.dataDir)).join('\n')}\n`)
  process.stdout.write(`${folder}\n`)
} finally {
  await served.stop()
  await served.remove()
  await rm(sourceFolder, { recursive: true })
}

async function makeFiles(): Promise<Map<string, Buffer>> {
  const { gray, width, height } = await pageImage(['Breakwater'])
  const scan = sharp(gray, { raw: { width, height, channels: 1 } })
  const mail =
    'From: a@example.org\r\nTo: b@example.org\r\nSubject: Mooring\r\nContent-Type: text/plain\r\n\r\nThe mooring was renewed.\r\n'
  return new Map([
    ['letter.txt', Buffer.from('Harbour fees for 2026: äöü, 港, ß')],
    ['copy.txt', Buffer.from('Harbour fees for 2026: äöü, 港, ß')],
    ['plan.pdf', textPdf([['Lighthouse'], ['Second page']])],
    ['scan.png', await scan.png({ palette: true, colours: 2 }).toBuffer()],
    ['mail.eml', Buffer.from(mail)],
    ['broken.pdf', Buffer.from('%PDF-1.7 broken')],
  ])
}

/** Fills the installation and waits until every document was read. Returns the client of the user who owns most of it. */
async function fill({ client: admin, url }: Served): Promise<Client> {
  const signIn = async (username: string): Promise<Client> => {
    const { token } = await admin.call<{ token: string }>('POST', '/api/auth/login', { username, password })
    return remoteClient({ base: url, token: async () => token })
  }
  await admin.users.create({ username: 'ada', email: 'ada@example.org', password, role: 'user' })
  const bob = await admin.users.create({ username: 'bob', email: 'bob@example.org', password, role: 'user' })
  const [asAda, asBob] = [await signIn('ada'), await signIn('bob')]
  await asAda.labels.create({ name: 'inbox', color: '#112233' })
  await asAda.labels.create({ name: 'harbour', color: '#445566' })
  const ids = new Map<string, string>()
  for (const [filename, bytes] of files) {
    const client = filename === 'copy.txt' ? asBob : asAda
    const { document } = await client.documents.upload({ filename, size: bytes.length, open: () => [bytes] }, { metadata: { box: 7 } })
    ids.set(filename, document.id)
  }
  const [letter = '', plan = ''] = [ids.get('letter.txt'), ids.get('plan.pdf')]
  await asAda.documents.update(letter, { title: 'Fees', labels: ['inbox', 'harbour'] })
  await asAda.documents.update(plan, { labels: ['inbox'] })
  const { id: comment } = await asAda.comments.create(letter, { content: 'Paid?' })
  await admin.comments.create(letter, { content: 'In March.', parent_id: comment })
  await asAda.comments.update(letter, comment, 'Paid already?')
  await asAda.sharedLinks.create({ document_id: letter, password: 'sesame', max_views: 3 })
  await asAda.sharedLinks.create({ document_id: plan, expires_at: '2099-12-31T00:00:00.000Z' })
  await asAda.tokens.create({ name: 'reports', scopes: ['read'] })
  await asAda.settings.update({ theme: 'dark', items_per_page: 50 })
  const source = await admin.sources.create({ name: 'scans', type: 'local_folder', url: sourceFolder, file_patterns: ['*.txt'] })
  await admin.sources.create({
    ...{ name: 'cloud', type: 'webdav', url: 'https://cloud.example.org/dav/' },
    ...{ username: 'ana', password: 'secret', owner: 'ada' },
  })
  await admin.sources.sync(source.id)
  await waitUntil(async () => (await admin.sources.get(source.id)).document_count === 1)
  const isRead = ({ status }: { status: string }) => status === 'completed' || status === 'failed'
  await waitUntil(async () => (await Array.fromAsync(admin.documents.list({}))).every(isRead))
  await admin.users.update(bob.id, { disabled: true })
  return asAda
}

async function waitUntil(isTrue: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    if (await isTrue()) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('the installation did not finish its work within a minute')
}

async function readSchema(dataDir: string): Promise<string[]> {
  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'error', format: 'json' }) })
  const client = new pg.Client({ ...postgres.ownerConnection })
  await client.connect()
  try {
    return await listSchema(client)
  } finally {
    await client.end()
    await postgres.release()
  }
}
