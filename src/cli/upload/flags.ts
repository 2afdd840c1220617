/** Flags of upload commands. */

import { type Command, Option } from 'commander'
import type { SplitMode } from '../../db/schema-documents.ts'
import { collectValues, parseCount, parseDurationFlag, parseKeyValues, refuseEmpty, splitOption } from '../arguments/flag-values.ts'
import { createThrottle } from '../arguments/throttle.ts'
import { parseDayFlag } from '../arguments/time-span.ts'
import { parseAfterUpload } from './after-upload.ts'
import type { UploadRun } from './upload.ts'

export interface UploadFlags {
  include: string[]
  exclude: string[]
  followSymlinks?: boolean
  label: string[]
  createLabels?: boolean
  language?: string
  split?: SplitMode
  ocr: boolean
  owner?: string
  metadata: string[]
  date?: string
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
    .option('--include <glob>', 'upload only files that match; repeatable', collectValues, [])
    .option('--exclude <glob>', 'skip matching files and folders; repeatable', collectValues, [])
    .option('--follow-symlinks', 'follow symbolic links in folders')
    .option('--label <labels>', 'labels to add (names or ids, separated by commas); repeatable', collectValues, [])
    .option('--create-labels', 'create labels that do not exist')
    .option('--language <codes>', 'OCR languages: auto, eng, deu+eng (default: by settings)')
    .addOption(splitOption())
    .option('--no-ocr', 'use only the text layer of the file')
    .option('--owner <user>', 'owner: user name, e-mail address or id (for admins)')
    .option('--metadata <key=value>', 'metadata entry; repeatable', collectValues, [])
    .option('--date <date>', 'document date (default: from the file or its text)')
    .addOption(new Option('--on-duplicate <what>', 'action if the owner has the same content').choices(['skip', 'upload']).default('skip'))
    .option('--after-upload <what>', 'action after the upload: keep, delete or move:DIR', 'keep')
    .option('--min-age <duration>', 'skip files changed more recently, e.g. scans being written', '0s')
    .option('--concurrency <n>', 'parallel requests', '4')
    .option('--limit-rate <rate>', 'maximum total rate, e.g. 500kB/s or 5MiB/s')
    .option('--lock-timeout <duration>', 'time to wait for another run over the same folder', '0s')

/** Converts the flags to options of an upload. Throws Failure USAGE. */
export function parseUploadFlags(command: string, flags: UploadFlags): Omit<UploadRun, 'cache'> {
  const { label, language, split, ocr, owner, metadata, date, onDuplicate, concurrency } = flags
  for (const list of label) refuseEmpty('--label', 'label', list)
  return {
    command,
    options: {
      labels: label.length === 0 ? undefined : label.join(','),
      language,
      split,
      ocr_enabled: ocr,
      owner,
      metadata: metadata.length === 0 ? undefined : parseKeyValues('--metadata', metadata),
      document_date: date === undefined ? undefined : parseDayFlag('--date', date),
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
