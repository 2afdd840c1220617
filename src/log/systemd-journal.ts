import { fstatSync } from 'node:fs'

/** Tells if standard error is the journal of systemd, which reads the priority of a line from its start (`<3>` is an error). */
export function isJournal({ JOURNAL_STREAM }: Readonly<Record<string, string | undefined>>): boolean {
  if (!JOURNAL_STREAM) return false
  try {
    const { dev, ino } = fstatSync(2)
    return JOURNAL_STREAM === `${dev}:${ino}`
  } catch {
    return false
  }
}
