import { readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const inMemory = '/dev/shm'
/** Folders for databases and temporary files. */
const room = { databases: 2 ** 31, files: 2 ** 33 }

/**
 * Folder for databases of tests: in memory if it has room and allows programs, because each test creates and drops databases and flushing them would
 * take most of the time; else the folder of temporary files.
 */
export function quickFolder(): string {
  return isQuick() ? inMemory : tmpdir()
}

/** Whether temporary files of tests are in memory too: flushing them took a third of the time of tests that start databases and servers. */
export const hasRoomForFiles = (): boolean => isQuick(room.files)

function isQuick(bytes = room.databases): boolean {
  try {
    const [, , type, flags = ''] = (
      readFileSync('/proc/mounts', 'utf8')
        .split('\n')
        .find((line) => line.split(' ')[1] === inMemory) ?? ''
    ).split(' ')
    const { bavail, bsize } = statfsSync(inMemory)
    return type === 'tmpfs' && !flags.split(',').includes('noexec') && bavail * bsize > bytes
  } catch {
    return false
  }
}
