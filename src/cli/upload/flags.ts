/** The flags of commands that upload. */
import { type Command, Option } from 'commander'
import { durationOf } from '../arguments/duration.ts'
import { metadataOf } from '../arguments/key-values.ts'
import { rateOf } from '../runtime/bandwidth-limit.ts'
import { usage } from '../runtime/exit.ts'
import { afterUpload } from './after-upload.ts'
import type { Uploading } from './upload.ts'

export interface UploadFlags {
  include: string[]
  exclude: string[]
  followSymlinks?: boolean
  label: string[]
  language?: string
  ocr: boolean
  owner?: string
  metadata: string[]
  onDuplicate: 'skip' | 'upload'
  afterUpload: string
  minAge: string
  concurrency: string
  limitRate?: string
  lockTimeout: string
}

export const several = (value: string, before: string[]): string[] => [...before, value]

/** Adds them. */
export const withUploadFlags = (command: Command): Command =>
  command
    .option('--include <glob>', 'only files like this; again for more', several, [])
    .option('--exclude <glob>', 'not files or folders like this; again for more', several, [])
    .option('--follow-symlinks', 'follow links inside folders')
    .option('--label <labels>', 'put these labels on (names or ids, with commas); again for more', several, [])
    .option('--language <codes>', 'of the text, for OCR: eng, or deu+eng')
    .option('--no-ocr', 'take the text that the file itself carries, and no more')
    .option('--owner <user>', 'whom they belong to (user name, e-mail or id); for admins')
    .option('--metadata <key=value>', 'note this with them; again for more', several, [])
    .addOption(
      new Option('--on-duplicate <what>', 'when this owner has the same bytes already').choices(['skip', 'upload']).default('skip'),
    )
    .option('--after-upload <what>', 'keep, delete, or move:DIR, once the server has the file', 'keep')
    .option('--min-age <duration>', 'leave out files that were changed less than this ago, such as scans being written', '0s')
    .option('--concurrency <n>', 'requests at once', '4')
    .option('--limit-rate <rate>', 'at most so many bytes a second in all: 500kB/s, 5MiB/s')
    .option('--lock-timeout <duration>', 'wait this long for another run over the same folder', '0s')

/** What they ask for. Throws Failure USAGE. */
export function uploadingOf(command: string, flags: UploadFlags): Omit<Uploading, 'journal'> {
  const { label, language, ocr, owner, metadata, onDuplicate, concurrency } = flags
  if (!/^([1-9]|[1-5]\d|6[0-4])$/.test(concurrency)) throw usage(`--concurrency ${concurrency}: a whole number from 1 to 64`)
  return {
    command,
    options: {
      labels: label.length === 0 ? undefined : label.join(','),
      language,
      ocr_enabled: ocr,
      owner,
      metadata: metadata.length === 0 ? undefined : metadataOf('--metadata', metadata),
      on_duplicate: onDuplicate === 'skip' ? 'return' : 'allow',
    },
    stdinName: undefined,
    rate: rateOf(flags.limitRate),
    concurrency: Number(concurrency),
    skipsKnown: onDuplicate === 'skip',
    after: afterUpload(flags.afterUpload),
    minAge: durationOf('--min-age', flags.minAge),
    waits: false,
  }
}
