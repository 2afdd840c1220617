/** Enforces the dependency rules of docs/architecture.md, read from the import lines. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Layers from the bottom up; a file imports from its own layer and those below. */
const floors: readonly (readonly string[])[] = [
  [
    'src/db/',
    'src/ports/',
    'src/errors.ts',
    'src/actor.ts',
    'src/config/',
    'src/log/',
    'src/processes.ts',
    'src/missing-file.ts',
    'src/version.ts',
    'src/concurrency.ts',
    'src/slices.ts',
    'src/text-lines.ts',
    'src/hash-stream.ts',
    'src/edit-distance.ts',
    'src/calendar.ts',
    'src/id.ts',
    'src/folders.ts',
    'src/unnamed-file.ts',
    'src/xml.ts',
    'src/json.ts',
    'src/certificates.ts',
    'src/s3/',
  ],
  ['src/http/', 'src/jobs/', 'src/events.ts', 'src/app.ts'],
  [
    'src/users/',
    'src/auth/',
    'src/documents/',
    'src/labels/',
    'src/holds/',
    'src/comments/',
    'src/shared-links/',
    'src/notifications/',
    'src/settings/',
    'src/metrics/',
    'src/ocr/',
    'src/extract/',
    'src/search/',
    'src/files/',
    'src/mail/',
    'src/sources/',
    'src/tokens/',
    'src/audit/',
  ],
  ['src/server/', 'src/web/', 'src/worker/', 'src/client/', 'src/backup/', 'src/check/', 'src/doctor/', 'src/open-app.ts'],
  ['src/cli/'],
  ['commands/'],
  ['bin/'],
]
const domains = floors[2] ?? []

interface Import {
  from: string
  /** a file of the project (path from its root) or a package */
  to: string
  isOurs: boolean
}

const files = await sources()
const imports = (await Promise.all(files.map(importsOf))).flat()
const text = new Map(await Promise.all(files.map(async (file) => [file, await readFile(join(root, file), 'utf8')] as const)))

describe('dependency rules', () => {
  test('1. imports go downwards only, and every file belongs to a layer', () => {
    expect(files.filter((file) => !file.startsWith('migrations/') && floorOf(file) === -1)).toEqual([])
    expect(shown(ours().filter(({ from, to }) => floorOf(from) < floorOf(to)))).toEqual([])
  })

  test('1. no import cycles', () => {
    expect(circle()).toEqual([])
  })

  test('1. no two domains import each other', () => {
    const domainOf = (file: string) => /^src\/[\w-]+(?=\/)/.exec(file)?.[0]
    const edges = new Map(ours().map((each) => [`${domainOf(each.from)} ${domainOf(each.to)}`, each]))
    const mutual = [...edges.values()].filter(({ from, to }) => {
      const [a, b] = [domainOf(from), domainOf(to)]
      return a !== undefined && b !== undefined && a !== b && edges.has(`${b} ${a}`)
    })
    expect(shown(mutual)).toEqual([])
  })

  test('2. app, ports, errors, actor and events name no domain and no engine', () => {
    const ground = /^src\/((app|errors|actor|events)\.ts|ports\/)/
    expect(shown(ours().filter(({ from, to }) => ground.test(from) && domains.some((domain) => to.startsWith(domain))))).toEqual([])
  })

  test('3. documents/ imports no domain that builds on it', () => {
    const others = ['labels', 'comments', 'shared-links', 'ocr', 'search', 'sources'].map((name) => `src/${name}/`)
    expect(
      shown(ours().filter(({ from, to }) => from.startsWith('src/documents/') && others.some((domain) => to.startsWith(domain)))),
    ).toEqual([])
  })

  test('4. only its own domain writes a table', () => {
    const owners: Record<string, string[]> = {
      users: ['users'],
      email_verifications: ['users'],
      api_tokens: ['tokens'],
      audit_entries: ['audit'],
      revoked_tokens: ['tokens'],
      documents: ['documents'],
      document_pages: ['documents'],
      labels: ['labels'],
      document_labels: ['documents'],
      document_versions: ['documents'],
      page_words: ['documents'],
      renditions: ['documents'],
      holds: ['holds'],
      hold_documents: ['holds'],
      stored_files: ['documents'],
      file_removals: ['documents'],
      shared_links: ['shared-links'],
      shared_link_views: ['shared-links'],
      search_documents: ['search'],
      search_words: ['search'],
      sources: ['sources'],
      source_syncs: ['sources'],
      source_files: ['sources'],
      source_folders: ['sources'],
    }
    const wrong: string[] = []
    for (const [file, code] of text) {
      const domain = /^src\/(\w[\w-]*)\//.exec(file)?.[1] ?? ''
      for (const [, table = ''] of code.matchAll(
        /(?:insertInto|updateTable|deleteFrom)\('(\w+)'\)|(?:insert into|update|delete from)\s+(\w+)\s/g,
      )) {
        if (domains.includes(`src/${domain}/`) && owners[table] && !owners[table].includes(domain)) wrong.push(`${file} writes ${table}`)
      }
    }
    expect(wrong).toEqual([])
  })

  test('4. reads of documents exclude the trash, except where it must be counted', () => {
    const includesTrash = [
      'src/documents/access.ts',
      'src/documents/documents.ts',
      'src/documents/extraction/page-text.ts',
      'src/documents/renditions/renditions.ts',
      'src/documents/retention.ts',
      'src/documents/source-documents.ts',
      'src/documents/stored-files.ts',
      'src/documents/trash/destroy.ts',
      'src/documents/trash/purge-trash.ts',
      'src/documents/trash/trash.ts',
      'src/documents/trash/version-limits.ts',
      'src/documents/versions/current-version.ts',
      'src/documents/versions/stored-bytes.ts',
      'src/documents/versions/versions.ts',
      'src/documents/view.ts',
      'src/holds/holds.ts',
      'src/holds/report.ts',
      'src/jobs/groups.ts',
      'src/jobs/leases.ts',
      'src/jobs/queue.ts',
      'src/shared-links/shared-links.ts',
      'src/sources/rollback.ts',
      'src/sources/sync/change-counts.ts',
      'src/sources/sync/ingest.ts',
      'src/sources/sync/ledger.ts',
      'src/worker/maintenance.ts',
    ]
    const read = /selectFrom\('documents\b|Join\('documents\b|\b(?:from|join)\s+documents\b(?!\.)/
    const readers = [...text]
      .filter(([file, code]) => /^(src\/(?!backup\/|check\/)|commands\/)/.test(file) && read.test(withoutProse(code)))
      .map(([file]) => file)
    // Others read the view live_documents. A file that belongs here shows documents in the trash, counts them, or locks them.
    expect(readers).toEqual(includesTrash)
  })

  test.each([
    ['h3', /^src\/(?:[\w-]+\/(?:[\w-]+-)?routes\.ts|http\/|server\/|auth\/bearer\.ts)/],
    ['tesseract.js', /^src\/ocr\/engines\//],
    ['pdfjs-dist', /^src\/extract\//],
    ['@hyzyla/pdfium', /^src\/extract\//],
    ['@cantoo/pdf-lib', /^src\/extract\/(pdfa|split)\//],
    ['zxing-wasm', /^src\/extract\/split\//],
    ['meilisearch', /^src\/search\/engines\//],
    ['@opensearch-project/opensearch', /^src\/search\/engines\/opensearch\//],
    ['saxes', /^src\/xml\.ts/],
    ['aws4fetch', /^src\/s3\//],
    ['jose', /^src\/auth\//],
    ['openid-client', /^src\/auth\//],
    ['nodemailer', /^src\/mail\//],
    ['commander', /^(commands|src\/cli)\//],
    ['ora', /^(commands|src\/cli)\//],
    ['@inquirer/prompts', /^(commands|src\/cli)\//],
    ['cli-table3', /^(commands|src\/cli)\//],
  ])('5. %s only where it belongs', (name, place) => {
    const users = imports.filter(({ to, isOurs }) => !isOurs && (to === name || to.startsWith(`${name}/`)))
    expect(shown(users.filter(({ from }) => !place.test(from)))).toEqual([])
  })

  test('6. routes contain no SQL; engines and types depend on ports, not on the App', () => {
    const routes = [...text].filter(
      ([file, code]) => /routes\.ts$/.test(file) && /\bsql`|selectFrom|insertInto|updateTable|deleteFrom/.test(code),
    )
    expect(routes.map(([file]) => file)).toEqual([])
    expect(
      shown(ours().filter(({ from, to }) => /\/engines\/|^src\/sources\/(http|webdav|s3|folder)\//.test(from) && to === 'src/app.ts')),
    ).toEqual([])
  })

  test('7. migrations import no other file of the project', () => {
    expect(shown(ours().filter(({ from }) => from.startsWith('migrations/')))).toEqual([])
  })

  test('8. each external system is reached through one module', () => {
    const doors: [RegExp, RegExp][] = [
      [/\bprocess\.env\b/, /^(src\/config\/environment\.ts$|bin\/)/],
      [/\bprocess\.exit\(/, /^bin\//],
      [/\bconsole\.\w+\(/, /^(src\/log\/log|src\/cli\/output\/output)\.ts$/],
    ]
    const broken = doors.flatMap(([what, where]) =>
      [...text].filter(([file, code]) => what.test(withoutComments(code)) && !where.test(file)).map(([file]) => `${file}: ${what.source}`),
    )
    expect(broken).toEqual([])
    const clocks = [...text].filter(
      ([file, code]) => domains.some((domain) => file.startsWith(domain)) && /new Date\(\)|Date\.now\(\)/.test(withoutComments(code)),
    )
    expect(clocks.map(([file]) => file).filter((file) => !clockless.includes(file))).toEqual([])
  })

  test('no file or folder has a name without meaning', () => {
    expect(files.filter((file) => /(^|\/)(helpers?|utils?|service|repository|types|index|common|misc)\.ts$/.test(file))).toEqual([])
  })
})

/** These measure the age of files, which app.now() does not apply to. */
const clockless = ['src/files/staging.ts', 'src/files/stores/disk.ts']

const ours = () => imports.filter(({ isOurs }) => isOurs)
const shown = (list: readonly Import[]) => [...new Set(list.map(({ from, to }) => `${from} imports ${to}`))]
const floorOf = (file: string) => floors.findIndex((floor) => floor.some((start) => file.startsWith(start)))
const withoutComments = (code: string) => code.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')
/** Returns the code without comments and messages, which may mention documents. */
const withoutProse = (code: string) => withoutComments(code).replace(/'(?!documents)[^'\n`]*'/g, "''")

function circle(): string[] {
  const state = new Map<string, 'open' | 'done'>()
  const path: string[] = []
  const visit = (file: string): string[] => {
    if (state.get(file) === 'done') return []
    if (state.get(file) === 'open') return [...path.slice(path.indexOf(file)), file]
    state.set(file, 'open')
    path.push(file)
    for (const { to } of ours().filter(({ from }) => from === file)) {
      const found = visit(to)
      if (found.length > 0) return found
    }
    path.pop()
    state.set(file, 'done')
    return []
  }
  for (const file of files) {
    const found = visit(file)
    if (found.length > 0) return found
  }
  return []
}

async function sources(): Promise<string[]> {
  const found = await Promise.all(
    ['bin', 'commands', 'migrations', 'src'].map((folder) => readdir(join(root, folder), { recursive: true, withFileTypes: true })),
  )
  return found
    .flat()
    .filter((entry) => entry.isFile() && /(?<!\.d)\.[jt]s$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort()
}

async function importsOf(from: string): Promise<Import[]> {
  const code = await readFile(join(root, from), 'utf8')
  return [...code.matchAll(/(?:\bfrom\s+|\bimport\s*\(?\s*)'([^']+)'/g)].map(([, to = '']) =>
    to.startsWith('.') ? { from, to: relative(root, join(root, dirname(from), to)), isOurs: true } : { from, to, isOurs: false },
  )
}
