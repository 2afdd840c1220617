/** Standard variables of AWS for the bucket of the document store. */
import type { Config } from './schema.ts'

const keys = {
  s3_access_key_id: 'AWS_ACCESS_KEY_ID',
  s3_secret_access_key: 'AWS_SECRET_ACCESS_KEY',
  s3_session_token: 'AWS_SESSION_TOKEN',
} as const

/**
 * Sets region and credentials that no setting names from the variables of AWS. Credentials are never mixed from both. Returns the variable of
 * each setting that changed.
 */
export function applyAwsVariables(storage: Config['storage'], env: Readonly<Record<string, string | undefined>>): Map<string, string> {
  const changed = new Map<string, string>()
  const set = (key: keyof typeof keys | 's3_region', variable: string) => {
    const value = env[variable]
    if (!value) return
    Object.assign(storage, { [key]: value })
    changed.set(`storage.${key}`, variable)
  }
  if (storage.s3_bucket === '') return changed
  if (storage.s3_region === '') set('s3_region', 'AWS_REGION')
  if (storage.s3_credentials === 'static' && storage.s3_access_key_id === '' && storage.s3_secret_access_key === '')
    for (const [key, variable] of Object.entries(keys)) set(key as keyof typeof keys, variable)
  return changed
}
