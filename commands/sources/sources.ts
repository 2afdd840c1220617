import { Option } from 'commander'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import {
  type AddressFlags,
  addAddressFlags,
  addSourceFlags,
  allSourceColumns,
  findSource,
  readSourceFields,
  readSourcePassword,
  type SourceFlags,
  sourceColumns,
} from '../../src/cli/arguments/sources.ts'
import { describeMissingAdmin, describeMissingOwner } from '../../src/cli/arguments/users.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import { buildSummary } from '../../src/cli/output/result-stream.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { dms } from '../../src/log/fix.ts'
import { rollback } from './rollback.ts'
import { status } from './status.ts'
import { sync } from './sync.ts'

export const sources = (cli: Cli) =>
  group('sources', 'Manage and sync sources of documents', [
    list(cli),
    get(cli),
    add(cli),
    update(cli),
    remove(cli),
    test(cli),
    sync(cli),
    status(cli),
    rollback(cli),
    rotateKey(cli),
  ])

type SourceType = 'webdav' | 'local_folder' | 's3'

const typeOption = () => new Option('--type <type>', 'type of the source').choices(['webdav', 'local_folder', 's3']).default('webdav')

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List sources',
    examples: [
      ['sources list', ''],
      ['sources list --status error -o id', 'sources whose last sync failed'],
      ['sources list -o wide', 'with URL, interval and last error'],
    ],
    exits: '0 listed · 4 not signed in · 69 server unreachable',
  })
    .alias('ls')
    .addOption(new Option('--status <status>', 'only this status').choices(['active', 'syncing', 'error', 'disabled']))
    .action(async ({ status }: { status?: string }) => {
      const client = await cli.client()
      const sources = await client.sources.list()
      cli.print(status === undefined ? sources : sources.filter((source) => source.status === status), { columns: sourceColumns })
    })

const get = (cli: Cli) =>
  manual('get <source>', {
    summary: 'Show a source',
    examples: [['sources get invoices', 'by name or id']],
    exits: '0 shown · 2 several sources have this name · 6 no such source',
    notes: ['User name and password are never shown.'],
  }).action(async (nameOrId: string) => {
    const client = await cli.client()
    const source = await findSource(client, nameOrId)
    cli.print(cli.options.printCurl ? await client.sources.get(source.id) : source, { columns: allSourceColumns })
  })

const add = (cli: Cli) =>
  addSourceFlags(
    manual('add', {
      summary: 'Add a source to sync documents from',
      examples: [
        [
          'sources add --name invoices --address https://cloud.example.org/remote.php/dav/files/ana/in/ --username ana --password-file ana.pw',
          '',
        ],
        [
          'sources add --name scans --type local_folder --address /srv/scans --pattern "*.pdf" --interval 15m',
          'a folder in sources.local_roots',
        ],
        [
          'sources add --name archive --type s3 --address https://s3.example.org/bucket/in/ --username KEYID --password-file secret',
          'an S3 bucket or prefix',
        ],
        ['sources add --name x --address https://… --username u --password-prompt --test', 'test the connection first'],
      ],
      exits: '0 added · 1 --test failed · 2 invalid value · 5 not allowed · 6 no such owner',
    }),
  )
    .addOption(typeOption())
    .option('--owner <user>', 'owner of the documents (for admins)')
    .option('--test', 'test the source, and add it only if the test passes')
    .action(async ({ type, owner, test, ...flags }: SourceFlags & { type: SourceType; owner?: string; test?: boolean }) => {
      const { name, url, ...fields } = await readSourceFields(cli, flags)
      if (name === undefined) throw usage('the source needs a name', 'pass --name NAME')
      if (url === undefined) throw usage('the source needs an address', 'pass --address URL')
      const client = await cli.client()
      if (test) {
        const { username, password, recursive } = fields
        const { ok, checks } = await client.sources.testAddress({ type, url, username, password, recursive })
        const failed = checks.find((check) => !check.ok)
        if (!ok) throw new Failure('FAILED', `source "${name}" was not added: ${failed?.name}: ${failed?.message}`)
      }
      const source = await client.sources.create({ type, name, url, owner, ...fields }).catch((error) => {
        throw describeMissingOwner(describeMissingAdmin(error, owner))
      })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Added source "${source.name}" (id ${source.id})` })
    })

const update = (cli: Cli) =>
  addSourceFlags(
    manual('update <source>', {
      summary: 'Change a source',
      examples: [
        ['sources update invoices --interval 15m', ''],
        ['sources update invoices --password-stdin < new.pw', ''],
        ['sources update invoices --status disabled', 'stops syncing; active resumes it'],
        ['sources update invoices --pattern ""', 'all files'],
      ],
      exits: '0 changed · 2 invalid value · 6 no such source',
      notes: ['Options that are not given stay unchanged. A new --address on another server removes user name and password.'],
    }),
  )
    .addOption(new Option('--status <status>', 'enable or disable syncing').choices(['active', 'disabled']))
    .action(async (nameOrId: string, { status, ...flags }: SourceFlags & { status?: 'active' | 'disabled' }) => {
      const fields = { ...(await readSourceFields(cli, flags)), status }
      if (Object.values(fields).every((value) => value === undefined)) throw usage('nothing to change', ['see ', dms`help sources update`])
      const client = await cli.client()
      const before = await findSource(client, nameOrId)
      const source = await client.sources.update(before.id, fields)
      if (before.has_credentials && !source.has_credentials)
        cli.note('user name and password were removed: the new address is on another server')
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Updated source "${source.name}"` })
    })

const remove = (cli: Cli) =>
  manual('remove <source>', {
    summary: 'Remove a source',
    examples: [
      ['sources remove invoices', 'asks first; keeps the documents'],
      ['sources remove invoices --documents delete -y', 'moves its documents to the trash'],
    ],
    exits: '0 removed · 2 no terminal to confirm on, and no --yes · 6 no such source',
  })
    .alias('rm')
    .addOption(new Option('--documents <what>', 'keep or delete its documents').choices(['keep', 'delete']).default('keep'))
    .option('-y, --yes', 'remove without asking')
    .action(async (nameOrId: string, { documents, yes }: { documents: 'keep' | 'delete'; yes?: boolean }) => {
      const client = await cli.client()
      const source = await findSource(client, nameOrId)
      const question = `Remove source "${source.name}" and ${documents} its ${source.document_count} documents?`
      if (!yes) await confirm(cli.options, question)
      await client.sources.delete(source.id, { documents })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Removed source "${source.name}"` })
    })

const test = (cli: Cli) =>
  addAddressFlags(
    manual('test [source]', {
      summary: 'Test the connection to a source',
      examples: [
        ['sources test invoices', ''],
        ['sources test --address https://cloud.example.org/dav/ --username ana --password-prompt', 'before adding it'],
      ],
      exits: '0 all checks passed · 3 a check failed · 6 no such source',
      notes: ['Changes nothing and fetches no file.'],
    }),
  )
    .addOption(typeOption())
    .action(async (nameOrId: string | undefined, { type, ...flags }: AddressFlags & { type: SourceType }) => {
      const { address: url, username } = flags
      if ((nameOrId === undefined) === (url === undefined)) throw usage('give either a source or --address')
      if (url === undefined && Object.keys(flags).length > 0)
        throw usage('a saved source is tested with its own user and password', 'test others with --address')
      const password = await readSourcePassword(cli, flags)
      const client = await cli.client()
      const { ok, checks, sample } = url
        ? await client.sources.testAddress({ type, url, username, password })
        : await client.sources.test((await findSource(client, nameOrId ?? '')).id)
      if (!ok) cli.exit = 'PARTIAL'
      const rows = checks.map((check) => ({ ...check, result: check.ok ? 'ok' : 'failed' }))
      if (cli.options.isJson) cli.print({ ok, checks, sample }, { columns: [] })
      else cli.print(rows, { columns: [{ name: 'name', title: 'CHECK' }, ...columnsOf(['result', 'message'])], id: 'name', isQuery: false })
      for (const path of sample) cli.note(`  ${path}`)
    })

const rotateKey = (cli: Cli) =>
  manual('rotate-key', {
    summary: 'Encrypt stored source passwords with a new key',
    examples: [
      ['sources rotate-key', 'generates a new key in the data folder'],
      ['sources rotate-key --old-key-file old.key', 'after a change of sources.encryption_key'],
    ],
    exits: '0 rotated · 1 a password was encrypted with another key; nothing was changed · 75 another rotation runs · 78 not a key',
    notes: ['Runs on the server only.'],
  })
    .option('--old-key-file <file>', 'previous key (32 bytes in base64)')
    .action(async ({ oldKeyFile: file }: { oldKeyFile?: string }) => {
      const started = new Date()
      const oldKey = file === undefined ? null : await readSecret(cli.options, 'old-key', { file })
      const app = await cli.app('sources rotate-key')
      const [{ rotateKey }, { runAudited }] = await Promise.all([
        import('../../src/sources/credentials.ts'),
        import('../../src/cli/remote/local-client.ts'),
      ])
      const sources = await runAudited(app, cli, { action: 'dms sources rotate-key' }, () => rotateKey(app, oldKey))
      const sentence = `✓ Encrypted the passwords of ${sources} sources with the new key`
      cli.print(buildSummary(cli, 'sources rotate-key', { sources }, started), { columns: columnsOf(['sources']), sentence })
    })
