/** The order of the test files: long ones first, so that none runs alone at the end. */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files of more than 20 s, the longest first. Vitest knows durations only of earlier runs, and otherwise uses the size of files. */
const long = [
  'web/page',
  'security/hostile-size',
  'commands/program/every-command',
  'server/kill',
  'extract/reader',
  'ocr/time-limits',
  'files/s3-archive',
  'http/errors-by-route',
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
