/** One successful invocation of each command. */
import { join } from 'node:path'
import type { World } from '../every-world.ts'

export interface Row {
  /** arguments after the words of the command */
  readonly args?: (world: World) => readonly string[]
  /** default: the user of the world */
  readonly who?: 'admin'
  /** where it works; default: both */
  readonly only?: 'here' | 'there'
  readonly input?: (world: World) => string
  /** default 0 */
  readonly code?: number
  /** its output is never JSON, or differs between runs */
  readonly prints?: 'bytes' | 'changing'
  /** arguments without the flag that answers its question; without a terminal the exit code is then 2 */
  readonly asks?: (world: World) => readonly string[]
}

/** Reason why a command has no row: it does not end by itself, or needs what only its own tests have. */
export interface Elsewhere {
  readonly elsewhere: string
}

const first = ({ documents }: World): string => documents[0]?.id ?? ''
const nth =
  (index: number) =>
  ({ documents }: World): string =>
    documents[index]?.id ?? ''
const ofFirst = (world: World): readonly string[] => [first(world)]
const ofOther = ({ other }: World): readonly string[] => [other]
const nothing = (): readonly string[] => []

export const rows: Readonly<Record<string, Row | Elsewhere>> = {
  serve: { elsewhere: 'runs until it is stopped' },
  worker: { args: () => ['--once', '--queues', 'maintenance'], only: 'here', prints: 'bytes' },
  'migrate up': { only: 'here' },
  'migrate status': { only: 'here' },
  'migrate verify': { only: 'here' },
  'migrate down': { args: () => ['-n'], only: 'here' },
  'migrate check': { only: 'here' },
  'database upgrade': { elsewhere: 'needs an embedded database: test/db/upgrade/database-upgrade.test.ts' },
  'database status': { elsewhere: 'needs an embedded database: test/db/upgrade/database-upgrade.test.ts' },

  'users list': { args: ({ name }) => ['--search', name], who: 'admin' },
  'users get': { args: ({ name }) => [name], who: 'admin' },
  'users add': {
    args: ({ name, folder }) => ['--username', `${name}-new`, '--email', `${name}-new@example.org`, '--password-file', join(folder, 'pw')],
    who: 'admin',
    asks: ({ name }) => ['--username', `${name}-asked`, '--email', `${name}-asked@example.org`],
  },
  'users import': { args: ({ folder }) => [join(folder, 'users.csv'), '--passwords', 'none'], who: 'admin' },
  'users export': { who: 'admin', prints: 'changing' },
  'users groups': { args: ofOther, who: 'admin' },
  'users set-role': { args: ({ other }) => [other, 'admin'], who: 'admin' },
  'users reset-password': { args: ({ other, folder }) => [other, '--password-file', join(folder, 'pw')], who: 'admin', asks: ofOther },
  'users disable': { args: ofOther, who: 'admin' },
  'users enable': { args: ofOther, who: 'admin' },
  'users token': { args: ofOther, who: 'admin', only: 'here', prints: 'changing' },
  'users delete': { args: ({ other }) => [other, '--confirm', other], who: 'admin', asks: ofOther },
  'tokens create': { args: ({ name }) => [`token of ${name}`, '--scope', 'read'], prints: 'changing' },
  'tokens list': {},
  'tokens revoke': { elsewhere: 'test/tokens/tokens.test.ts' },
  'audit list': { args: () => ['--limit', '5'], who: 'admin', prints: 'changing' },
  'audit export': { who: 'admin', prints: 'changing' },
  'audit verify': { who: 'admin', only: 'here', prints: 'changing' },

  'documents list': {},
  'documents get': { args: ofFirst },
  'documents text': { args: ofFirst },
  'documents download': { args: (world) => [first(world), '--to', join(world.folder, 'fetched.txt')] },
  'documents thumbnail': { args: (world) => [first(world), '--to', join(world.folder, 'picture.webp')] },
  'documents update': { args: (world) => [nth(1)(world), '--title', 'New', '--add-label', world.label, '--set', 'box=7'] },
  'documents export': {
    args: ({ folder, label }) => ['--to', join(folder, 'export'), '--label', label, '--with-text', '--concurrency', '1'],
  },
  // One that no other command changes: nobody indexes here.
  'documents wait': { args: (world) => [nth(2)(world)] },
  'documents watch': { elsewhere: 'runs until it is stopped: test/commands/documents/uploads.test.ts' },
  'search query': { args: ({ name }) => ['harbour', name] },
  'search similar': { args: ofFirst, prints: 'changing' },
  'search suggest': { args: () => ['harb'], prints: 'changing' },
  'search status': { who: 'admin', only: 'here' },
  'search verify': { args: () => ['--sample', '2'], who: 'admin', only: 'here', prints: 'changing' },
  'search reindex': { args: () => ['--if-needed'], who: 'admin', only: 'here' },
  'labels create': { args: ({ name }) => [`new of ${name}`] },
  'labels list': { prints: 'changing' },
  'labels update': { args: ({ name }) => [`new of ${name}`, '--name', `other of ${name}`] },
  'labels assign': { args: (world) => [`other of ${world.name}`, nth(2)(world)] },
  'labels unassign': { args: (world) => [`other of ${world.name}`, '-'], input: nth(2) },
  'labels delete': { args: ({ name }) => [`other of ${name}`, '-y'], asks: ({ name }) => [`other of ${name}`] },

  'holds create': { args: ({ name }) => [`hold of ${name}`, '--reason', 'a claim'], who: 'admin' },
  'holds list': { who: 'admin', prints: 'changing' },
  'holds add': { args: (world) => [`hold of ${world.name}`, nth(2)(world)], who: 'admin' },
  'holds remove': { args: (world) => [`hold of ${world.name}`, '-'], input: nth(2), who: 'admin' },
  'holds release': { args: ({ name }) => [`hold of ${name}`, '-y'], who: 'admin', asks: ({ name }) => [`hold of ${name}`] },
  'holds delete': { elsewhere: 'test/commands/holds.test.ts' },
  'retention set': { args: (world) => [nth(2)(world), '--until', '2090-12-31'] },
  'retention report': {},

  'sources add': {
    args: ({ name, folder }) => ['--name', `source of ${name}`, '--type', 'local_folder', '--address', join(folder, 'in')],
    who: 'admin',
  },
  'sources list': { who: 'admin', prints: 'changing' },
  'sources get': { args: ({ name }) => [`source of ${name}`], who: 'admin' },
  'sources test': { args: ({ name }) => [`source of ${name}`], who: 'admin', prints: 'changing' },
  'sources status': { args: ({ name }) => [`source of ${name}`], who: 'admin' },
  'sources update': { args: ({ name }) => [`source of ${name}`, '--interval', '2h'], who: 'admin' },
  'sources rollback': {
    args: ({ name }) => [`source of ${name}`, '--before', '1h', '-n'],
    who: 'admin',
    asks: ({ name }) => [`source of ${name}`, '--before', '1h'],
  },
  'sources sync': { elsewhere: 'test/commands/sources.test.ts' },
  'sources rotate-key': { elsewhere: 'test/commands/sources.test.ts' },
  'sources remove': { args: ({ name }) => [`source of ${name}`, '-y'], who: 'admin', asks: ({ name }) => [`source of ${name}`] },

  'ocr queue status': { prints: 'changing' },
  // What is finished is in the order in which it was.
  'ocr queue list': { args: () => ['--status', 'pending'] },
  'ocr queue prioritise': { args: ({ jobs }) => [jobs[0] ?? '', '--priority', 'low'] },
  'ocr queue cancel': { args: ({ jobs }) => [...jobs], asks: () => ['--pending'] },
  'ocr queue retry': { args: (world) => ['--document', nth(4)(world), '-n'] },
  'ocr queue pause': { elsewhere: 'test/commands/ocr-queue.test.ts' },
  'ocr queue resume': { elsewhere: 'test/commands/ocr-queue.test.ts' },
  'ocr queue recover': { who: 'admin' },
  'ocr queue wait': { elsewhere: 'test/commands/ocr-queue.test.ts' },
  'documents retry-ocr': { args: (world) => [nth(5)(world)] },

  'shared-links list': {},
  'shared-links info': { args: ({ link }) => [link.token] },
  'shared-links download': { args: ({ link, folder }) => [link.token, '--to', join(folder, 'linked.txt')] },
  'shared-links create': { args: (world) => [first(world), '--max-views', '2'], prints: 'changing' },
  'shared-links revoke': { args: ({ link }) => [link.id] },
  'comments list': { args: ofFirst },
  'comments add': { args: (world) => [first(world), '--reply-to', world.comment, 'Well', 'said.'] },
  'comments edit': { args: (world) => [first(world), world.comment, '--body-file', '-'], input: () => 'said anew' },
  'comments delete': {
    args: (world) => [first(world), world.comment, '--yes'],
    asks: (world) => [first(world), world.comment],
  },
  // In the order in which readers finished.
  'notifications list': { prints: 'changing' },
  'notifications read': { args: ({ notification }) => [notification] },
  'settings get': {},
  'settings set': { args: () => ['theme=dark', 'items_per_page=30'] },
  'metrics system': { prints: 'changing' },
  'metrics ocr': { prints: 'changing' },
  'metrics prometheus': { who: 'admin', prints: 'changing' },
  'documents replace': { args: (world) => [nth(1)(world), join(world.folder, 'pw'), '--no-ocr'] },
  'documents versions': { args: (world) => [nth(1)(world)], prints: 'changing' },
  'documents restore': { args: (world) => [nth(1)(world), '--version', '1'] },
  'documents delete': { args: (world) => [nth(3)(world), '-y'], asks: (world) => [nth(3)(world), '--permanent'] },
  'renditions make': { args: (world) => [nth(1)(world)], prints: 'changing' },
  'renditions status': { prints: 'changing' },
  'trash list': {},
  'documents undelete': { args: (world) => [nth(3)(world)] },
  'trash empty': { args: () => ['-y'], asks: () => [] },
  'documents upload': { args: ({ folder }) => ['-r', join(folder, 'in')] },

  'storage status': { only: 'here' },
  'storage migrate': { args: () => ['--to', 'disk', '--verify'], only: 'here', prints: 'changing' },
  'storage adopt': { only: 'here', prints: 'changing' },
  'backup create': { args: ({ folder }) => ['--to', join(folder, 'backups')], only: 'here', who: 'admin' },
  'backup list': { only: 'here' },
  'backup verify': { elsewhere: 'test/commands/backup/backup.test.ts' },
  'backup rehearse': { elsewhere: 'test/commands/backup/rehearse.test.ts' },
  'backup prune': { args: () => ['--keep', '5', '-y'], only: 'here' },
  restore: { elsewhere: 'test/commands/backup/backup.test.ts' },
  'maintenance run': { only: 'here', prints: 'changing' },
  'maintenance purge-trash': { args: () => ['-n'], only: 'here', prints: 'changing' },
  'maintenance expire-links': { args: () => ['-n'], only: 'here', prints: 'changing' },
  'maintenance purge-notifications': { args: () => ['-n'], only: 'here', prints: 'changing' },
  'maintenance vacuum-jobs': { args: () => ['-n'], only: 'here', prints: 'changing' },
  check: { only: 'here', prints: 'changing' },
  doctor: { args: () => ['--only', 'schema'], only: 'here', prints: 'changing' },
  'config check': { only: 'here' },
  'config show': { args: () => ['server'], only: 'here' },
  'config init': { args: ({ folder }) => ['--to', join(folder, 'config.toml')], only: 'here', prints: 'changing' },
  'config env': { only: 'here' },
  login: { elsewhere: 'test/commands/remote/contexts.test.ts' },
  logout: { elsewhere: 'test/commands/remote/contexts.test.ts' },
  whoami: { only: 'there', prints: 'changing' },
  'context create': { args: () => ['prod', '--url', 'https://dms.example.org'], only: 'here' },
  'context list': { only: 'here' },
  'context show': { args: () => ['prod'], only: 'here' },
  'context rename': { args: () => ['prod', 'old'], only: 'here' },
  'context use': { args: () => ['old'], only: 'here' },
  'context remove': { args: () => ['old'], only: 'here' },
  api: { args: () => ['GET', '/api/settings'], only: 'there' },
  'events tail': { elsewhere: 'runs until it is stopped' },
  healthcheck: { args: nothing, only: 'there', prints: 'changing' },
  version: { prints: 'changing' },
  complete: { args: () => ['label'], prints: 'bytes' },
  completion: { args: () => ['bash'], prints: 'bytes' },
  'documents man': { args: ({ folder }) => ['--dir', join(folder, 'man')] },
  'documents markdown': { args: ({ folder }) => ['--dir', join(folder, 'markdown')] },
  help: { args: () => ['exit-codes'], prints: 'changing' },
}
