/** Keeps the memory of a long sync from growing with the number of its files. */
import { openFileCollector } from '../../files/free-buffers.ts'

/**
 * Files between two collections of the whole heap. What a download leaves behind has grown old by the time that its file is taken in, and V8
 * lets a hundred megabytes of that gather. To keep it from giving young objects more room as well saves little more, and made syncs slower.
 */
const betweenCollections = 1000

/** What to tell of every file that was taken in. */
export const holdMemory = (): (() => void) => openFileCollector(betweenCollections)
