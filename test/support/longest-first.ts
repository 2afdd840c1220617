/** The order of the test files: none of the long ones is left for the end, where it would run alone. */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** More than 15 s of CPU each, the longest first. Vitest knows durations only of earlier runs, and goes by the size of a file before those. */
const long = [
  'package/pack',
  'commands/documents/documents',
  'commands/ocr-queue',
  'commands/sources',
  'server/kill',
  'search/search',
  'shared-links/shared-links',
].map((name) => `/test/${name}.test.ts`)

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const first = long.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(name)))
    return [...first, ...sorted.filter((file) => !first.includes(file))]
  }
}
