/** Keeps the memory of a long sync from growing with the number of its files. */
import { setFlagsFromString } from 'node:v8'
import { openFileCollector } from '../files/collect.ts'

/**
 * Files between two collections of the whole heap. What a download leaves behind has grown old by the time that its file is taken in, and V8
 * lets a hundred megabytes of that gather; forty milliseconds for a thousand files keep it at some ten.
 */
const betweenCollections = 1000

/** Tell it of every file that was taken in, and release it at the end. */
export function holdMemory(): { passed(): void; release(): void } {
  // V8 doubles the room of young objects for as long as many survive, which thousands of downloads do: 50 MB more, and nothing is faster.
  setFlagsFromString('--semi-space-growth-factor=1')
  return { passed: openFileCollector(betweenCollections), release: () => setFlagsFromString('--semi-space-growth-factor=2') }
}
