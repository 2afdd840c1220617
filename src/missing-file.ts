/** Errors of files: missing ones, and failed writes. */

/** Returns null for the error of a file or folder that does not exist. Throws other errors. */
export function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code !== 'ENOENT') throw error
  return null
}

/** Adds the path to the error of a failed write, from which Node omits it, and throws it. */
export const addPath =
  (path: string) =>
  (error: NodeJS.ErrnoException): never => {
    if (error.path === undefined && ['write', 'writev', 'fsync'].includes(error.syscall ?? '')) error.message += ` '${path}'`
    throw error
  }
