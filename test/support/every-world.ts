/** Data for every command: a user with documents of all kinds, equal in each world, and separate from other users. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Actor } from '../../src/actor.ts'
import { createClient } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { upload } from './app.ts'
import { registerIdleWorker } from './idle-worker.ts'
import { type startServer, tokenFor } from './servers/server.ts'

type Server = Awaited<ReturnType<typeof startServer>>

export interface World {
  readonly name: string
  /** for files; initially with a.txt and users.csv */
  readonly folder: string
  /** read documents, in the order of their upload; the last one has failed */
  readonly documents: readonly { id: string; title: string }[]
  readonly label: string
  readonly link: { id: string; token: string; url: string }
  readonly comment: string
  readonly notification: string
  /** OCR jobs of the last documents */
  readonly jobs: readonly string[]
  /** another user, to be changed and removed */
  readonly other: string
  /** variables for commands as this user or as an admin, locally and over HTTP */
  env(way: 'here' | 'there', who: 'person' | 'admin'): Promise<Record<string, string>>
}

/** Creates worlds, each with a folder of its own below `folder`, which is empty. */
export async function makeWorlds<const N extends string>(server: Server, folder: string, names: readonly N[]): Promise<Record<N, World>> {
  const begun = await Promise.all(names.map((name) => begin(server, `in-${name}`, join(folder, name))))
  await server.runJobs()
  // Somebody else is at work, as far as commands can see: so none of them reads what another one is looked at with.
  await registerIdleWorker(server.app)
  const worlds: [N, World][] = []
  for (const [index, name] of names.entries()) worlds.push([name, await finish(server, begun[index] as Begun)])
  return Object.fromEntries(worlds) as Record<N, World>
}

type Begun = Awaited<ReturnType<typeof begin>>

/** Creates a user with unread documents. */
async function begin({ app }: Server, name: string, folder: string) {
  const values = {
    username: name,
    username_key: name,
    email: `${name}@example.org`,
    email_key: `${name}@example.org`,
    role: 'user' as const,
  }
  const person = await app.db.insertInto('users').values(values).returningAll().executeTakeFirstOrThrow()
  const actor: Actor = { id: person.id, role: 'user', username: name }
  const client = createClient(localTransport(app, actor))
  for (const each of ['in', 'backups']) await mkdir(join(folder, each), { recursive: true })
  await writeFile(join(folder, 'in', 'a.txt'), `a file of ${name}, which is not there yet`)
  await writeFile(join(folder, 'pw'), 'correct horse battery\n')
  await writeFile(
    join(folder, 'users.csv'),
    `username,email,password\n${name}-imported,${name}-imported@example.org,correct horse battery\n`,
  )
  const documents: { id: string; title: string }[] = []
  for (const word of ['harbour', 'letter', 'invoice', 'contract', 'drawing', 'receipt'])
    documents.push(await upload(client, `${word} ${'of a long name '.repeat(4)}${name}.txt`, `${word} of ${name}, that nobody else has`))
  documents.push(await upload(client, `broken ${name}.pdf`, `%PDF-1.7\nnot one of ${name}`))
  return { name, folder, person, client, documents }
}

/** Adds what needs read documents. */
async function finish(server: Server, { name, folder, person, client, documents }: Begun): Promise<World> {
  const { app, asAdmin, admin, dataDir, databaseUrl, url } = server
  const idOf = (index: number): string => documents[index]?.id ?? ''
  const label = await asAdmin.labels.create({ name: `label of ${name}`, color: '#336699', description: 'x'.repeat(100) })
  await client.labels.assign(label.id, [idOf(0)])
  const link = await client.sharedLinks.create({ document_id: idOf(0) })
  const comment = await client.comments.create(idOf(0), { content: `said in ${name}: ${'many words '.repeat(12)}` })
  const jobs = [await client.documents.retryOcr(idOf(4)), await client.documents.retryOcr(idOf(5))]
  const [news] = (await client.notifications.page({ per_page: 1 })).notifications
  const other = await asAdmin.users.create({ username: `${name}-other`, email: `${name}-other@example.org`, password: null })
  return {
    name,
    folder,
    documents,
    label: label.name,
    link,
    comment: comment.id,
    notification: news?.id ?? '',
    jobs: jobs.map(({ job_id }) => job_id),
    other: other.username,
    async env(way, who) {
      const user = who === 'admin' ? admin : person
      const here = {
        DATABASE_URL: databaseUrl,
        DMS_DATA_DIR: dataDir,
        DMS_AS: user.username,
        DMS_SOURCES_LOCAL_ROOTS: folder,
        DMS_BACKUP_PATH: join(folder, 'backups'),
        DMS_PUBLIC_URL: url,
        // What is read meanwhile would not be the same at each look.
        DMS_WORKER_CONCURRENCY: '1',
      }
      const remote = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, user) }
      return {
        HOME: folder,
        XDG_CONFIG_HOME: join(folder, 'config'),
        XDG_STATE_HOME: join(folder, 'state'),
        ...(way === 'here' ? here : remote),
      }
    },
  }
}
