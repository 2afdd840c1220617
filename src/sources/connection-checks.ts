/** Records the steps of a connection test, and a sample of the files. */
import type { SourceConnection, SourceFailure } from '../ports/source-type.ts'

/** Paths to show, and the maximum number of folders listed to find them. */
const maxSampleFiles = 5
const maxSampleFolders = 20

interface ConnectionCheck {
  name: string
  ok: boolean
  message: string
}

/** Starts a test. `toSourceFailure` converts errors of the steps. */
export function startConnectionChecks(toSourceFailure: (error: unknown) => SourceFailure) {
  const checks: ConnectionCheck[] = []
  const sample: string[] = []
  const add = (check: ConnectionCheck): boolean => {
    checks.push(check)
    return check.ok
  }
  return {
    result: { checks, sample },
    add,
    /** Runs a step. Returns false if it fails. */
    run: (name: string, message: string, step: () => Promise<unknown>): Promise<boolean> =>
      step().then(
        () => add({ name, ok: true, message }),
        (error) => add({ name, ok: false, message: toSourceFailure(error).message }),
      ),
    async collectSample(walk: SourceConnection['walk'], signal: AbortSignal): Promise<void> {
      let folders = 0
      for await (const entry of walk({ loadTag: async () => null, signal })) {
        if (entry.kind === 'file') sample.push(entry.file.path)
        if (entry.kind === 'folder') folders++
        if (sample.length === maxSampleFiles || folders === maxSampleFolders) return
      }
    },
  }
}
