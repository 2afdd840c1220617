/** Flags of commands that upload. */
import { type Command, Option } from 'commander'
import { collectValues, parseCount, parseDurationFlag, parseKeyValues } from '../arguments/flag-values.ts'
import { createThrottle } from '../runtime/bandwidth-limit.ts'
import { parseAfterUpload } from './after-upload.ts'
import type { UploadRun } from './upload.ts'

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

/** Adds the flags. */
export const addUploadFlags = (command: Command): Command =>
  command
    .option('--include <glob>', 'only files like this; again for more', collectValues, [])
    .option('--exclude <glob>', 'not files or folders like this; again for more', collectValues, [])
    .option('--follow-symlinks', 'follow links inside folders')
    .option('--label <labels>', 'put these labels on (names or ids, with commas); again for more', collectValues, [])
    .option('--language <codes>', 'of the text, for OCR: eng, or deu+eng')
    .option('--no-ocr', 'take the text that the file itself carries, and no more')
    .option('--owner <user>', 'whom they belong to (user name, e-mail or id); for admins')
    .option('--metadata <key=value>', 'note this with them; again for more', collectValues, [])
    .addOption(
      new Option('--on-duplicate <what>', 'when this owner has the same bytes already').choices(['skip', 'upload']).default('skip'),
    )
    .option('--after-upload <what>', 'keep, delete, or move:DIR, once the server has the file', 'keep')
    .option('--min-age <duration>', 'leave out files that were changed less than this ago, such as scans being written', '0s')
    .option('--concurrency <n>', 'requests at once', '4')
    .option('--limit-rate <rate>', 'at most so many bytes a second in all: 500kB/s, 5MiB/s')
    .option('--lock-timeout <duration>', 'wait this long for another run over the same folder', '0s')

/** Converts the flags to options of an upload. Throws Failure USAGE. */
export function parseUploadFlags(command: string, flags: UploadFlags): Omit<UploadRun, 'cache'> {
  const { label, language, ocr, owner, metadata, onDuplicate, concurrency } = flags
  return {
    command,
    options: {
      labels: label.length === 0 ? undefined : label.join(','),
      language,
      ocr_enabled: ocr,
      owner,
      metadata: metadata.length === 0 ? undefined : parseKeyValues('--metadata', metadata),
      on_duplicate: onDuplicate === 'skip' ? 'return' : 'allow',
    },
    stdinName: undefined,
    throttle: createThrottle(flags.limitRate),
    concurrency: parseCount('--concurrency', concurrency, { max: 64 }),
    shouldSkipKnown: onDuplicate === 'skip',
    afterUpload: parseAfterUpload(flags.afterUpload),
    minAgeMs: parseDurationFlag('--min-age', flags.minAge),
    shouldWait: false,
  }
}
