import { readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const inMemory = '/dev/shm'
/** Bytes that databases need, and temporary files with them. */
const room = { databases: 2 ** 31, files: 2 ** 33 }

/**
 * Where databases of tests lie: in memory, where it has room and may hold programs, since each test makes and drops some and their flushes
 * would take most of the time; else the machine's folder of temporary files.
 */
export function quickFolder(): string {
  return isQuick() ? inMemory : tmpdir()
}

/** How PostgreSQL copies a template there: copying files flushes the whole server, which costs nothing in memory only. */
export const copyStrategy = (): 'file_copy' | 'wal_log' => (isQuick() ? 'file_copy' : 'wal_log')

/** Whether temporary files of tests lie in memory too: flushes to a disk took a third of the time of tests that start databases and servers. */
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
