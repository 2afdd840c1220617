/** Describes an installation as JSON that does not depend on its place: the fixtures of releases are compared with it. */
import type { Client } from '../../src/client/client.ts'

/** Reads everything that users of an installation can see. `admin` sees all documents; `person` owns tokens, settings and notifications. */
export async function describeInstallation(admin: Client, person: Client) {
  const documents = await Array.fromAsync(admin.documents.list({}))
  return {
    users: (await Array.fromAsync(admin.users.list({}))).map(pick('id', 'username', 'email', 'role', 'disabled', 'created_at')).sort(byId),
    labels: (await admin.labels.list()).map(pick('id', 'name', 'color', 'created_by', 'document_count')).sort(byId),
    documents: (await Promise.all(documents.map((document) => describeDocument(admin, document)))).sort(byId),
    sources: (await admin.sources.list()).map(pick('id', 'owner_id', 'name', 'type', 'url', 'file_patterns', 'document_count')).sort(byId),
    tokens: (await person.tokens.list()).map(pick('id', 'name', 'scopes', 'username')).sort(byId),
    settings: { ...(await person.settings.get()) },
    notifications: (await Array.fromAsync(person.notifications.list())).map(pick('id', 'type', 'title', 'read')).sort(byId),
    audit: (await Array.fromAsync(admin.audit.all({ order: 'asc' }))).map(pick('seq', 'actor', 'action', 'outcome', 'hash')),
  }
}

export type Description = Awaited<ReturnType<typeof describeInstallation>>

async function describeDocument(admin: Client, document: Awaited<ReturnType<Client['documents']['get']>>) {
  const { id } = document
  const links = await Array.fromAsync(admin.sharedLinks.listOf(id))
  const threads = await Array.fromAsync(admin.comments.all(id))
  const comment = pick('id', 'username', 'content', 'is_edited', 'created_at')
  return {
    ...pick('id', 'owner', 'title', 'filename', 'status', 'mime_type', 'size', 'sha256', 'language', 'metadata')(document),
    ...pick('page_count', 'source_id', 'source_path', 'duplicate_of', 'created_at')(document),
    labels: [...document.labels].sort(),
    text: await admin.documents.text(id),
    comments: threads.map((thread) => ({ ...comment(thread), replies: thread.replies.map(comment).sort(byId) })).sort(byId),
    links: links.map(pick('id', 'token', 'has_password', 'max_views', 'view_count', 'expires_at', 'created_by')).sort(byId),
  }
}

/** Later versions add fields: only those of the first release are compared. */
const pick =
  <Name extends string>(...names: Name[]) =>
  <T extends { [Key in Name]: unknown }>(value: T): { [Key in Name]: T[Key] } =>
    Object.fromEntries(names.map((name) => [name, value[name]])) as { [Key in Name]: T[Key] }

const byId = (one: { id: string }, other: { id: string }): number => (one.id < other.id ? -1 : 1)
