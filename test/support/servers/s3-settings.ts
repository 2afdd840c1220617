/** Settings of a document store on S3. */
import type { S3Server } from './s3-server.ts'

let buckets = 0

/** Returns the settings of a document store in a bucket of the server. */
export const storeSettings = ({ url, username, password }: Pick<S3Server, 'url' | 'username' | 'password'>, bucket: string) => ({
  'storage.kind': 's3',
  'storage.s3_endpoint': url,
  'storage.s3_bucket': bucket,
  'storage.s3_access_key_id': username,
  'storage.s3_secret_access_key': password,
  'storage.s3_force_path_style': true,
})

/** Creates a bucket and returns the settings of a document store in it. */
export async function bucketSettings(server: S3Server, prefix = 'archive'): Promise<Record<string, string | boolean>> {
  const bucket = `store-${process.pid}-${++buckets}`
  await server.send('PUT', bucket)
  return { ...storeSettings(server, bucket), 'storage.s3_prefix': prefix }
}
