/** The first words after `dms`. The file of a command is loaded only when its word is typed, which keeps `--help` fast. */
import type { Command } from 'commander'
import type { Cli } from '../src/cli/runtime/context.ts'

export interface FirstWord {
  /** Equals the summary of the command itself (docs.test.ts). */
  readonly summary: string
  readonly aliases?: readonly string[]
  /** Exits with 0 or 1 only: Docker and load balancers give other codes another meaning. */
  readonly isProbe?: boolean
  /** called by programs only, and not shown */
  readonly isHidden?: boolean
  readonly load: () => Promise<(cli: Cli, loadAll: () => Promise<Command>) => Command>
}

/** Commands in the order of `dms --help`. */
export const firstWords: Readonly<Record<string, FirstWord>> = {
  serve: { summary: 'Start the HTTP server and a worker', load: async () => (await import('./serve.ts')).serve },
  worker: { summary: 'Run background jobs: OCR, sync, index, maintenance', load: async () => (await import('./worker.ts')).worker },
  migrate: { summary: 'Manage the database schema', load: async () => (await import('./migrate/migrate.ts')).migrate },
  database: { summary: 'Upgrade the embedded PostgreSQL', load: async () => (await import('./database/database.ts')).database },
  users: { summary: 'Manage users', load: async () => (await import('./users/users.ts')).users },
  tokens: { summary: 'Manage API tokens', load: async () => (await import('./tokens/tokens.ts')).tokens },
  audit: { summary: 'List, export and verify the audit log', load: async () => (await import('./audit/audit.ts')).audit },
  documents: { summary: 'Manage documents', aliases: ['docs'], load: async () => (await import('./documents/documents.ts')).documents },
  trash: { summary: 'List deleted documents and empty the trash', load: async () => (await import('./trash/trash.ts')).trash },
  renditions: {
    summary: 'Make searchable PDF/A files of documents',
    load: async () => (await import('./renditions/renditions.ts')).renditions,
  },
  search: { summary: 'Search documents and manage the index', load: async () => (await import('./search/search.ts')).search },
  labels: { summary: 'Manage labels', load: async () => (await import('./labels/labels.ts')).labels },
  holds: { summary: 'Keep documents from being destroyed', load: async () => (await import('./holds/holds.ts')).holds },
  retention: {
    summary: 'Set and report the retention of documents',
    load: async () => (await import('./retention/retention.ts')).retention,
  },
  sources: { summary: 'Manage and sync sources of documents', load: async () => (await import('./sources/sources.ts')).sources },
  ocr: { summary: 'Manage the OCR queue', load: async () => (await import('./ocr/ocr.ts')).ocr },
  'shared-links': {
    summary: 'Share documents by links',
    aliases: ['links'],
    load: async () => (await import('./shared-links/shared-links.ts')).sharedLinks,
  },
  comments: { summary: 'Manage comments on documents', load: async () => (await import('./comments/comments.ts')).comments },
  notifications: {
    summary: 'List notifications and mark them as read',
    load: async () => (await import('./notifications/notifications.ts')).notifications,
  },
  settings: { summary: 'Show and change your user settings', load: async () => (await import('./settings/settings.ts')).settings },
  metrics: { summary: 'Show metrics of the server and of OCR', load: async () => (await import('./metrics/metrics.ts')).metrics },
  storage: {
    summary: 'Show document stores and move files between them',
    load: async () => (await import('./storage/storage.ts')).storage,
  },
  backup: { summary: 'Create, verify and prune backups', load: async () => (await import('./backup/backup.ts')).backup },
  restore: { summary: 'Restore a backup into an empty database and store', load: async () => (await import('./restore.ts')).restore },
  check: { summary: 'Check tables, stored files and search index', load: async () => (await import('./check.ts')).check },
  doctor: { summary: 'Diagnose an installation and suggest fixes', load: async () => (await import('./doctor.ts')).doctor },
  maintenance: { summary: 'Delete expired data', load: async () => (await import('./maintenance.ts')).maintenance },
  config: { summary: 'Check, show and write the configuration', load: async () => (await import('./config/config.ts')).config },
  login: { summary: 'Sign in to a remote server and save it as a context', load: async () => (await import('./login.ts')).login },
  logout: { summary: 'End the session of a context and forget its credentials', load: async () => (await import('./logout.ts')).logout },
  whoami: { summary: 'Show the current server and user', load: async () => (await import('./whoami.ts')).whoami },
  context: { summary: 'Manage saved servers', load: async () => (await import('./context/context.ts')).context },
  api: { summary: 'Send a request to the API and print the answer', load: async () => (await import('./api.ts')).api },
  events: { summary: 'Follow events of the server', load: async () => (await import('./events/events.ts')).events },
  healthcheck: {
    summary: 'Check that a server answers: exit 0 or 1',
    isProbe: true,
    load: async () => (await import('./healthcheck.ts')).healthcheck,
  },
  version: { summary: 'Print the versions of client, server and database', load: async () => (await import('./version.ts')).version },
  completion: { summary: 'Print a completion script for a shell', load: async () => (await import('./completion.ts')).completion },
  complete: {
    summary: 'List names or complete a line for completion scripts',
    isHidden: true,
    load: async () => (await import('./complete.ts')).complete,
  },
  help: { summary: 'Show help for a command or a topic', load: async () => (await import('./help.ts')).help },
}
