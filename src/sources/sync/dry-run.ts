/** A run without its doings: what it would fetch. */
import { SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import { matching } from '../globs.ts'
import { verdictOn } from './compare.ts'
import * as folders from './folder-tags.ts'
import * as ledger from './ledger.ts'
import type { Pulling } from './sync-context.ts'

/** Entries that are compared with the ledger at once. */
const together = 500

/** What would be fetched, without fetching it. */
export async function* plan(pulling: Omit<Pulling, 'run' | 'job'>): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
  const { app, sourceId, connection, options, signal, globs } = pulling
  let some: SourceFile[] = []
  let left = options.maxFiles ?? Number.POSITIVE_INFINITY
  async function* look(): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
    const matched = await matching(
      globs,
      some.map(({ path }) => path),
    )
    const files = some.filter(({ path }) => matched.has(path))
    some = []
    const notable = await ledger.compare(app.db, sourceId, null, files, options.full)
    for (const file of files) {
      const row = notable.get(file.path)
      if (left === 0 || verdictOn(row, options.full) !== 'fetch') continue
      left--
      yield { action: row?.document_id ? 'updated' : 'created', file }
    }
  }
  for await (const entry of connection.walk({ known: folders.tagsFor(pulling), signal })) {
    if (entry.kind === 'problem') throw new SourceFailure(entry.code, `${entry.path}: ${entry.message}`)
    if (entry.kind === 'file') some.push(entry.file)
    if (some.length >= together) yield* look()
    if (left === 0) return
  }
  yield* look()
}
