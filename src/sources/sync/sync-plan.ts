/** Lists the files that a sync would fetch, for users. */
import type { z } from 'zod'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import { SourceFailure } from '../../ports/source-type.ts'
import { get } from '../sources.ts'
import type { PlanAnswer } from '../view.ts'
import { planSync } from './sync-job.ts'

/** Time for listing a source. A longer listing ends with the files found so far. */
const planTimeoutMs = 45_000
const maxProblems = 1000

export type SyncPlan = z.infer<typeof PlanAnswer>

/** Returns the files that a sync would fetch, at most `max_files`. Throws SOURCE_NOT_FOUND. */
export async function listPlan(
  app: App,
  actor: Actor,
  id: string,
  { full, max_files }: { full: boolean; max_files: number },
): Promise<SyncPlan> {
  await get(app, actor, id)
  const files: SyncPlan['files'] = []
  const problems: SyncPlan['problems'] = []
  let stop: SyncPlan['stop'] = null
  const timeout = AbortSignal.timeout(planTimeoutMs)
  // One more file tells whether there are more.
  const options = { full, acceptChanges: false, concurrency: app.config.sources.concurrency, maxFiles: max_files + 1 }
  try {
    const planned = planSync(app, id, options, timeout, {
      onFailure({ code, message }) {
        stop = { code, message }
      },
      onProblem({ path, code, message }) {
        if (problems.length < maxProblems) problems.push({ path, code, message })
      },
    })
    for await (const { action, file } of planned) {
      if (files.length === max_files) return { files, problems, has_more: true, error: null, stop }
      files.push({ action, path: file.path, size: file.size })
    }
  } catch (error) {
    if (timeout.aborted) return { files, problems, has_more: true, error: null, stop }
    if (!(error instanceof SourceFailure)) throw error
    return { files, problems, has_more: false, error: { code: error.code, message: error.message }, stop }
  }
  return { files, problems, has_more: false, error: null, stop }
}
