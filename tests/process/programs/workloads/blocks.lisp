;; Threads with tables, compiled closures, foreign blocks and collections; every line depends on the numbers alone.
(defvar *lock* (sb-thread:make-mutex))

(defun say (name value)
  (sb-thread:with-mutex (*lock*) (format t "~a=~a~%" name value)))

(defun hash (string)
  (let ((h 2166136261))
    (loop for c across string do (setf h (logand #xffffffff (* (logxor h (char-code c)) 16777619))))
    h))

(defun foreign-sum (n)
  "Blocks of malloc, filled and read back."
  (let ((blocks (loop for k from 1 to 100
                      collect (let ((p (sb-alien:make-alien (sb-alien:unsigned 8) (* k n))))
                                (dotimes (i (* k n)) (setf (sb-alien:deref p i) (logand 255 (+ i k))))
                                (cons p (* k n))))))
    (loop for (p . size) in blocks
          sum (sb-alien:deref p (1- size))
          do (sb-alien:free-alien p))))

(defun work (thread)
  (loop for round from 1 to 50
        do (let ((table (make-hash-table :test #'equal)))
             (loop for n from 1 to 2000
                   do (push n (gethash (format nil "~36r" (mod (+ (* n 7919 thread) round) 4093)) table)))
             (let* ((keys (sort (loop for k being the hash-keys of table collect k) #'string<))
                    (text (with-output-to-string (s) (dolist (k keys) (format s "~a~a" k (reduce #'+ (gethash k table))))))
                    (closure (compile nil `(lambda (x) (+ (* x ,round) (mod (expt x 20) 1000003) ,(length keys))))))
               (say (format nil "thread~d_round~d" thread round)
                    (format nil "~d_~d_~d" (hash text) (funcall closure thread) (foreign-sum (+ 10 round))))))
           (when (zerop (mod round 25)) (sb-ext:gc :full t))))

(defun main ()
  (let ((threads (loop for n from 1 to 4 collect (let ((n n)) (sb-thread:make-thread #'work :arguments (list n))))))
    (mapc #'sb-thread:join-thread threads)
    (say "factorial" (hash (format nil "~d" (let ((f 1)) (loop for n from 1 to 2000 do (setf f (* f n))) f))))
    (finish-output)))
