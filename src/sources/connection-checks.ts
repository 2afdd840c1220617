/** Records the steps of a connection test, and a sample of the files. */
import type { SourceConnection, SourceFailure } from '../ports/source-type.ts'

/** Paths to show, and the maximum number of folders listed to find them. */
const maxSampleFiles = 5
const maxSampleFolders = 20

/** Starts a test. `toSourceFailure` converts errors of the steps. */
export function startConnectionChecks(toSourceFailure: (error: unknown) => SourceFailure) {
  const checks: { name: string; ok: boolean; message: string }[] = []
  const sample: string[] = []
  const add = (name: string, ok: boolean, message: string): boolean => {
    checks.push({ name, ok, message })
    return ok
  }
  return {
    result: { checks, sample },
    add,
    /** Runs a step. Returns false if it fails. */
    run: (name: string, message: string, step: () => Promise<unknown>): Promise<boolean> =>
      step().then(
        () => add(name, true, message),
        (error) => add(name, false, toSourceFailure(error).message),
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
