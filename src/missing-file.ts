/** Files that do not exist. */

/** Returns null for the error of a file or folder that does not exist. Throws other errors. */
export function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code !== 'ENOENT') throw error
  return null
}
