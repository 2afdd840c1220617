/** The order of the test files: none of the long ones is left for the end, where it would run alone. */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** More than 20 s each, the longest first. Vitest knows durations only of earlier runs, and goes by the size of a file before those. */
const long = [
  'package/docs-shell',
  'package/pack',
  'web/page',
  'security/hostile-size',
  'commands/program/every-command',
  'server/kill',
  'extract/reader',
  'search/search',
  'server/websocket',
  'commands/backup/restore-crafted',
].map((name) => `/test/${name}.test.ts`)

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const first = long.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(name)))
    return [...first, ...sorted.filter((file) => !first.includes(file))]
  }
}
