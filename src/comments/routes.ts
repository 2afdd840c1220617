import { z } from 'zod'
import type { App } from '../app.ts'
import { integerText } from '../http/input.ts'
import { CursorPagination, cursorField, type FetchedPage } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import * as comments from './comments.ts'

export const Span = z.object({
  limit: integerText(1, 100).default(50),
  offset: integerText(0, 1_000_000_000).default(0),
  cursor: cursorField,
})
/** The domain checks the length, because it has its own error codes. */
const Content = z.string().meta({ minLength: 1, maxLength: 10_000 })
export const NewComment = z.object({ content: Content, parent_id: z.string().nullish() })
const Changes = z.object({ content: Content })

export const CommentAnswer = z.object({
  id: z.uuid(),
  document_id: z.uuid(),
  parent_id: z.uuid().nullable(),
  user_id: z.uuid().nullable().describe('Author; null if the user was deleted.'),
  username: z.string().describe('Stays when the user is deleted.'),
  user_role: z.enum(['admin', 'user']).nullable().describe('Null if the user was deleted.'),
  content: z.string(),
  is_edited: z.boolean(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
})
export const ThreadAnswer = CommentAnswer.extend({ reply_count: z.int(), replies: z.array(CommentAnswer) })
const span = { total: z.int(), limit: z.int(), offset: z.int(), pagination: CursorPagination }
export const ThreadsAnswer = z.object({ comments: z.array(ThreadAnswer), ...span })
export const RepliesAnswer = z.object({ replies: z.array(CommentAnswer), ...span })
export const CountAnswer = z.object({ count: z.int() })

const path = '/api/comments/documents/:document_id/comments'
const ofDocument = { document_id: 'COMMENT_DOCUMENT_NOT_FOUND' } as const
const ofComment = { ...ofDocument, comment_id: 'COMMENT_NOT_FOUND' } as const
const contentErrors = ['COMMENT_CONTENT_EMPTY', 'COMMENT_CONTENT_TOO_LONG'] as const

export const routes = (app: App): Route[] => [
  user(
    `GET ${path}`,
    {
      summary: 'List comments on a document, newest first, with their first replies',
      ids: ofDocument,
      query: Span,
      answer: ThreadsAnswer,
      isLarge: true,
    },
    async ({ actor, param, query }) => {
      const fetched = await comments.list(app, actor, param('document_id'), query)
      return { comments: fetched.rows.map(threadView), ...spanOf(query, fetched) }
    },
  ),
  user(
    `POST ${path}`,
    {
      summary: 'Create a comment on a document or a reply',
      ids: ofDocument,
      body: NewComment,
      status: 201,
      answer: CommentAnswer,
      errors: [...contentErrors, 'COMMENT_NOT_FOUND', 'COMMENT_NESTING_TOO_DEEP', 'COMMENT_RATE_LIMITED', 'FORBIDDEN'],
    },
    async ({ actor, param, body }) => view(await comments.create(app, actor, param('document_id'), body)),
  ),
  user(
    `GET ${path}/count`,
    { summary: 'Count the comments on a document, including replies', ids: ofDocument, answer: CountAnswer },
    async ({ actor, param }) => ({ count: await comments.count(app, actor, param('document_id')) }),
  ),
  user(
    `GET ${path}/:comment_id/replies`,
    { summary: 'List replies to a comment, oldest first', ids: ofComment, query: Span, answer: RepliesAnswer, isLarge: true },
    async ({ actor, param, query }) => {
      const fetched = await comments.replies(app, actor, param('document_id'), param('comment_id'), query)
      return { replies: fetched.rows.map(view), ...spanOf(query, fetched) }
    },
  ),
  user(
    `PUT ${path}/:comment_id`,
    {
      summary: 'Change your comment',
      ids: ofComment,
      body: Changes,
      answer: CommentAnswer,
      errors: [...contentErrors, 'COMMENT_PERMISSION_DENIED'],
    },
    async ({ actor, param, body }) => view(await comments.update(app, actor, param('document_id'), param('comment_id'), body.content)),
  ),
  user(
    `DELETE ${path}/:comment_id`,
    { summary: 'Delete a comment and its replies', ids: ofComment, errors: ['COMMENT_PERMISSION_DENIED'] },
    ({ actor, param }) => comments.remove(app, actor, param('document_id'), param('comment_id')),
  ),
]

const spanOf = ({ limit, offset }: comments.Span, { total, next }: FetchedPage<unknown>) => ({
  total,
  limit,
  offset,
  pagination: { next_cursor: next },
})

/** Replies are read as JSON, with their times as text. */
const view = (comment: comments.Comment | comments.Thread['replies'][number]) =>
  viewOf(CommentAnswer, { ...comment, created_at: new Date(comment.created_at), updated_at: new Date(comment.updated_at) })

const threadView = (thread: comments.Thread) => ({ ...view(thread), reply_count: thread.reply_count, replies: thread.replies.map(view) })
