import type { z } from 'zod'
import type { CommentAnswer, CountAnswer, NewComment, RepliesAnswer, Span, ThreadAnswer, ThreadsAnswer } from '../comments/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

type Comment = z.infer<typeof CommentAnswer>
type SpanQuery = QueryOf<typeof Span>
type Thread = z.infer<typeof ThreadAnswer>

/** Comments on documents; `list` and `replies` return `limit` entries from `offset`. */
export const comments = ({ call, list }: OpenConnection) => ({
  /** Yields all top-level comments, newest first, each with its first replies. */
  all: (documentId: string): EntryStream<Thread> => list(commentsOf(documentId), { limit: 100 }, 'comments'),
  /** Yields all replies to a comment, oldest first. */
  allReplies: (documentId: string, id: string): EntryStream<Comment> =>
    list(commentsOf(documentId, id, 'replies'), { limit: 100 }, 'replies'),
  list: (documentId: string, span: SpanQuery = {}): Promise<z.infer<typeof ThreadsAnswer>> =>
    call('GET', withQuery(commentsOf(documentId), span)),
  replies: (documentId: string, id: string, span: SpanQuery = {}): Promise<z.infer<typeof RepliesAnswer>> =>
    call('GET', withQuery(commentsOf(documentId, id, 'replies'), span)),
  count: async (documentId: string): Promise<number> =>
    (await call<z.infer<typeof CountAnswer>>('GET', commentsOf(documentId, 'count'))).count,
  create: (documentId: string, comment: z.input<typeof NewComment>): Promise<Comment> => call('POST', commentsOf(documentId), comment),
  update: (documentId: string, id: string, content: string): Promise<Comment> => call('PUT', commentsOf(documentId, id), { content }),
  delete: (documentId: string, id: string): Promise<void> => call('DELETE', commentsOf(documentId, id)),
})

const commentsOf = (documentId: string, ...more: readonly string[]): string =>
  pathOf('comments', 'documents', documentId, 'comments', ...more)
