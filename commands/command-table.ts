/** The words that can follow `dms`. A command's file is loaded when its word is typed: what is not needed costs no time. */
import type { Command } from 'commander'
import { topics } from '../src/cli/output/topics.ts'
import type { Cli } from '../src/cli/runtime/context.ts'

export interface FirstWord {
  /** the same as the command says of itself */
  readonly summary: string
  readonly aliases?: readonly string[]
  /** ends with 0 or 1, whatever happens: to those who ask, other numbers mean something else */
  readonly isProbe?: boolean
  /** `whole` is the program with all of its commands */
  readonly load: () => Promise<(cli: Cli, whole: () => Promise<Command>) => Command>
}

/** In the order of `dms --help`. */
export const words: Readonly<Record<string, FirstWord>> = {
  serve: { summary: 'Start the HTTP server and a worker.', load: async () => (await import('./serve.ts')).serve },
  worker: {
    summary: 'Run background jobs (reading and OCR, syncs of sources, index, maintenance).',
    load: async () => (await import('./worker.ts')).worker,
  },
  migrate: {
    summary: 'Bring the database schema up to date. Runs on the server only.',
    load: async () => (await import('./migrate.ts')).migrate,
  },
  users: { summary: 'Users: who may sign in.', load: async () => (await import('./users/users.ts')).users },
  tokens: {
    summary: 'API tokens: for programs that sign in without a password.',
    load: async () => (await import('./tokens/tokens.ts')).tokens,
  },
  audit: { summary: 'Audit log: who did what, when and from where.', load: async () => (await import('./audit/audit.ts')).audit },
  documents: {
    summary: 'Documents: upload, find, change, fetch and delete them.',
    aliases: ['docs'],
    load: async () => (await import('./documents/documents.ts')).documents,
  },
  search: { summary: 'Search: documents by their words.', load: async () => (await import('./search/search.ts')).search },
  labels: { summary: 'Labels, and which documents have them.', load: async () => (await import('./labels/labels.ts')).labels },
  sources: { summary: 'Sources: where documents are pulled from.', load: async () => (await import('./sources/sources.ts')).sources },
  ocr: { summary: 'The OCR queue.', load: async () => (await import('./ocr/ocr.ts')).ocr },
  'shared-links': {
    summary: 'Links to documents for people without an account.',
    aliases: ['links'],
    load: async () => (await import('./shared-links/shared-links.ts')).sharedLinks,
  },
  comments: { summary: 'What is said about a document.', load: async () => (await import('./comments/comments.ts')).comments },
  notifications: { summary: 'What dms told you.', load: async () => (await import('./notifications/notifications.ts')).notifications },
  settings: {
    summary: 'Your settings (the server’s are in dms config).',
    load: async () => (await import('./settings/settings.ts')).settings,
  },
  metrics: { summary: 'How busy the server is, and how OCR goes.', load: async () => (await import('./metrics/metrics.ts')).metrics },
  backup: {
    summary: 'Backups of everything: made while the server runs, restored by any newer dms.',
    load: async () => (await import('./backup/backup.ts')).backup,
  },
  restore: {
    summary: 'Put a backup into an empty place: a new data folder, or an empty database and an empty folder.',
    load: async () => (await import('./restore.ts')).restore,
  },
  check: {
    summary: 'Look whether tables, stored files and search index agree. Runs on the server, also while it serves.',
    load: async () => (await import('./check.ts')).check,
  },
  doctor: { summary: 'Find what is wrong, and say how to mend it.', load: async () => (await import('./doctor.ts')).doctor },
  maintenance: { summary: 'What is needed no more.', load: async () => (await import('./maintenance.ts')).maintenance },
  config: { summary: 'Check, show and write the configuration.', load: async () => (await import('./config/config.ts')).config },
  login: { summary: 'Sign in to a server elsewhere, and keep it as a context.', load: async () => (await import('./login.ts')).login },
  logout: {
    summary: 'End the session of a context, and forget its token and where its password is.',
    load: async () => (await import('./logout.ts')).logout,
  },
  whoami: { summary: 'Say which server commands work on, and as whom.', load: async () => (await import('./whoami.ts')).whoami },
  context: { summary: 'Contexts: the servers that commands work on.', load: async () => (await import('./context/context.ts')).context },
  api: { summary: 'Send one request to the API, and print the answer as it comes.', load: async () => (await import('./api.ts')).api },
  events: { summary: 'Events: what happens on the server, as it happens.', load: async () => (await import('./events/events.ts')).events },
  healthcheck: {
    summary: 'Say whether a server runs: 0 or 1, for Docker and load balancers.',
    isProbe: true,
    load: async () => (await import('./healthcheck.ts')).healthcheck,
  },
  version: {
    summary: 'Say which dms this is, and which server or database it works on.',
    load: async () => (await import('./version.ts')).version,
  },
  completion: {
    summary: 'Print a script that completes commands, flags and values in a shell.',
    load: async () => (await import('./completion.ts')).completion,
  },
  help: {
    summary: `Help about a command, or about a topic: ${Object.keys(topics).join(', ')}.`,
    load: async () => (await import('./help.ts')).help,
  },
}
